#include "train/tasks/data_source.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/text/codec.h"
#include "tests/data/refusal.h"
#include "tests/support/temporary_folder.h"
#include "train/config/error.h"
#include "train/config/reader.h"
#include "train/tasks/task.h"

using namespace tapestry;

namespace {

DataOptions small(const std::string& task) {
  DataOptions options;
  options.task = task;
  options.generated.train_size = 50;
  options.generated.validation_size = 5;
  options.generated.test_size = 5;
  return options;
}

std::string first_source(const Corpus& corpus, const DataOptions& options) {
  const TextCodec codec = make_codec(options, corpus.source_vocabulary, corpus.target_vocabulary);
  return codec.decode_source(corpus.train[0].source);
}

/// The message of check_subwords() about a config with two .model files; empty if it is accepted.
std::string refusal_of_two_models(bool two_vocabularies) {
  Config config;
  config.data.task = "a source of a user";
  config.data.words.subwords.kind = SubwordKind::file;
  config.data.words.subwords.file = "a.model";
  config.data.words.subwords.target_file = "b.model";
  const ConfigCheck::Origins origins{{"data.target_subword_file", {.place = {}, .valid = true}}};
  Diagnostics problems;
  check_subwords(config, ConfigCheck(origins, problems), two_vocabularies);
  try {
    problems.throw_if_any();
  } catch (const ConfigError& error) {
    return error.diagnostics().front().message;
  }
  return "";
}

}  // namespace

TEST_CASE("a source of a user may have subwords of its own for sources and targets") {
  CHECK(refusal_of_two_models(true).empty());
  CHECK(refusal_of_two_models(false) ==
        "`target_subword_file` is used with two vocabularies only, found one");
}

TEST_CASE("the examples of text are windows, those of all other sources are not") {
  std::vector<std::string> found;
  for (const Task* task : all_tasks()) {
    for (const DataSource* source : task->sources()) {
      const std::string name(source->kind.name);
      const bool is_new = std::ranges::find(found, name) == found.end();
      if (source->makes_windows && is_new) found.push_back(name);
    }
  }
  CHECK(found == std::vector<std::string>{"text"});
}

TEST_CASE("each generated task has its own corpus and fingerprint") {
  std::set<std::uint64_t> fingerprints;
  for (const char* task : {"copy", "reverse", "sort", "toy_translation"}) {
    const Corpus corpus = load_corpus(small(task));
    CHECK(corpus.train.size() == 50);
    CHECK(corpus.files.empty());
    CHECK(corpus.fingerprint == fingerprint(corpus));
    fingerprints.insert(corpus.fingerprint);
  }
  CHECK(fingerprints.size() == 4);
}

TEST_CASE("text files are read with the tokens of their source") {
  const tapestry::test::TemporaryFolder folder;
  folder.write("a.txt", "ja\n");
  folder.write("b.txt", "yes\n");
  DataOptions options = small("parallel_text");
  options.pairs.train_source = options.pairs.validation_source = (folder.path() / "a.txt").string();
  options.pairs.train_target = options.pairs.validation_target = (folder.path() / "b.txt").string();
  const Corpus corpus = load_corpus(options);
  CHECK(first_source(corpus, options) == "ja");
  CHECK(corpus.fingerprint == fingerprint(corpus));
}

TEST_CASE("a generated task uses given vocabularies, or refuses them") {
  DataOptions options = small("copy");
  const Corpus corpus = load_corpus(options);
  const FixedVocabularies fixed = {corpus.source_vocabulary, corpus.target_vocabulary};
  CHECK(load_corpus(options, &fixed).fingerprint == corpus.fingerprint);
  options.symbols.num_symbols = 21;
  CHECK(tapestry::test::refusal([&] { load_corpus(options, &fixed); }) ==
        "data.task: the source vocabulary of the task has 25 entries, expected 24 as in the model");
  options = small("toy_translation");
  const Corpus translation = load_corpus(options);
  const FixedVocabularies half = {translation.source_vocabulary, corpus.target_vocabulary};
  const auto message = [&](const FixedVocabularies& known) {
    return tapestry::test::refusal([&] { load_corpus(options, &known); });
  };
  const auto sizes = [](const Vocabulary& found, const Vocabulary& expected) {
    return fmt::format("{} entries, expected {} as in the model", found.size(), expected.size());
  };
  CHECK(message(half) == "data.task: the target vocabulary of the task has " +
                             sizes(translation.target_vocabulary, *half.target));
  const FixedVocabularies other_half = {corpus.source_vocabulary, translation.target_vocabulary};
  CHECK(message(other_half) == "data.task: the source vocabulary of the task has " +
                                   sizes(translation.source_vocabulary, other_half.source));

  // As many entries, but another last one.
  std::vector<std::string> words;
  const auto size = static_cast<std::int32_t>(translation.source_vocabulary.size());
  for (std::int32_t id = first_word_id; id < size; ++id) {
    words.push_back(translation.source_vocabulary.token(id));
  }
  const std::string last = std::exchange(words.back(), "other");
  CHECK(message({Vocabulary(words), translation.target_vocabulary}) ==
        fmt::format("data.task: the source vocabulary of the task has `{}` as entry {}, expected "
                    "`other` as in the model",
                    last, size));
}

TEST_CASE("a codec encodes the decoded lines of a generated corpus to the same ids") {
  const DataOptions options = small("toy_translation");
  const Corpus corpus = load_corpus(options);
  const TextCodec codec = make_codec(options, corpus.source_vocabulary, corpus.target_vocabulary);
  for (const Example& pair : corpus.train) {
    CHECK(codec.encode_source(codec.decode_source(pair.source)) == pair.source);
    CHECK(codec.encode_target(codec.decode_target(pair.target)) == pair.target);
  }
}

TEST_CASE("generated corpora never change: runs must resume after an update of the program") {
  CHECK(load_corpus(small("copy")).fingerprint == 17821857666651069730u);
  CHECK(load_corpus(small("reverse")).fingerprint == 11026624728226318405u);
  CHECK(load_corpus(small("sort")).fingerprint == 5107367147147909082u);
  CHECK(load_corpus(small("toy_sentences")).fingerprint == 8583499559987234979u);
  CHECK(load_corpus(small("toy_agreement")).fingerprint == 5202699805351451751u);
  CHECK(load_corpus(small("toy_translation")).fingerprint == 10408640692468379289u);
}

TEST_CASE("held-out files with the content of training files are noted") {
  const test::TemporaryFolder folder;
  folder.write("a.txt", "x\tone\ny\tone\n");
  folder.write("b.txt", "x\ttwo\n");
  folder.write("copy.txt", "x\ttwo\n");
  DataOptions options;
  options.task = "labelled_text";
  const auto path = [&](const char* name) { return (folder / name).string(); };
  options.text.train_text = std::vector<std::string>{path("a.txt"), path("b.txt")};
  options.text.validation_text = path("copy.txt");
  options.text.test_text = path("a.txt");
  CHECK(load_corpus(options).notes ==
        std::vector<std::string>{
            "warning: data.validation_text has the same content as data.train_text: scores of this "
            "set are scores of training examples",
            "warning: data.test_text has the same content as data.train_text: scores of this set "
            "are scores of training examples"});
  folder.write("copy.txt", "x\tsix\n");
  options.text.test_text.clear();
  CHECK(load_corpus(options).notes.empty());
}

TEST_CASE("a held-out set with one file of the training set is other data") {
  const test::TemporaryFolder folder;
  for (const char* name : {"a.de", "a.en"}) folder.write(name, "one\n");
  folder.write("b.en", "two\n");
  DataOptions options;
  options.task = "parallel_text";
  const auto path = [&](const char* name) { return (folder / name).string(); };
  options.pairs.train_source = path("a.de");
  options.pairs.train_target = path("b.en");
  options.pairs.validation_source = path("a.de");
  options.pairs.validation_target = path("a.en");
  CHECK(load_corpus(options).notes.empty());
  options.pairs.validation_target = path("b.en");
  CHECK(load_corpus(options).notes.size() == 1);
}
