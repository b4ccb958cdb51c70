// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/data_source.h"
#include "train/tasks/data_rules.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/text/tokenizer.h"
#include "tests/data/rejection.h"
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

/// The error message of check_subwords() for a config with two .model files; empty if it accepts
/// the config.
std::string rejection_of_two_models(bool two_vocabularies) {
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

TEST_CASE("a custom data source may have separate subwords for sources and targets") {
  CHECK(rejection_of_two_models(true).empty());
  CHECK(rejection_of_two_models(false) ==
        "`target_subword_file` is only used with two vocabularies, found one");
}

TEST_CASE("generated corpora never change, so that new versions can resume old runs") {
  const std::pair<const char*, std::uint64_t> expected[] = {
      {"copy", 17821857666651069730u},         {"reverse", 11026624728226318405u},
      {"sort", 5107367147147909082u},          {"toy_sentences", 8583499559987234979u},
      {"toy_agreement", 5202699805351451751u}, {"toy_translation", 10408640692468379289u}};
  for (const auto& [task, value] : expected) {
    const auto& shown = task;  // clang 14 cannot capture structured bindings
    CAPTURE(shown);
    const Corpus corpus = load_corpus(small(task));
    CHECK(corpus.train.size() == 50);
    CHECK(corpus.files.empty());
    CHECK(corpus.fingerprint == value);
    CHECK(corpus.fingerprint == fingerprint(corpus));
  }
}

TEST_CASE("a generated task accepts vocabularies of its words and rejects other vocabularies") {
  DataOptions options = small("copy");
  const Corpus corpus = load_corpus(options);
  const FixedVocabularies fixed = {corpus.source_vocabulary, corpus.target_vocabulary};
  CHECK(load_corpus(options, &fixed).fingerprint == corpus.fingerprint);
  const auto check = [&](const FixedVocabularies& known, const std::vector<std::string>& words_of) {
    test::check_rejected({{"data.task", words_of}},
                         [&](const std::string&) { load_corpus(options, &known); });
  };
  options.symbols.num_symbols = 21;
  check(fixed, {"data.task", "source vocabulary", "25 entries", "expected 24"});
  options = small("toy_translation");
  const Corpus toy = load_corpus(options);
  const auto entries = [](const Vocabulary& words_of) {
    return fmt::format("{} entries", words_of.size());
  };
  check({toy.source_vocabulary, corpus.target_vocabulary},
        {"target vocabulary", entries(toy.target_vocabulary), "expected 24"});
  check({corpus.source_vocabulary, toy.target_vocabulary},
        {"source vocabulary", entries(toy.source_vocabulary), "expected 24"});

  // The same number of entries, but a different last entry
  std::vector<std::string> words;
  const auto size = static_cast<std::int32_t>(toy.source_vocabulary.size());
  for (std::int32_t id = first_word_id; id < size; ++id) {
    words.push_back(toy.source_vocabulary.token(id));
  }
  const std::string last = std::exchange(words.back(), "other");
  check({Vocabulary(words), toy.target_vocabulary},
        {"source vocabulary", "`" + last + "` as entry", "expected `other`"});
}

TEST_CASE("encoding the decoded lines of a generated corpus gives the original ids") {
  const DataOptions options = small("toy_translation");
  const Corpus corpus = load_corpus(options);
  const TextCodec codec = make_codec(options, corpus.source_vocabulary, corpus.target_vocabulary);
  for (const Example& pair : corpus.train) {
    CHECK(codec.encode_source(codec.decode_source(pair.source)) == pair.source);
    CHECK(codec.encode_target(codec.decode_target(pair.target)) == pair.target);
  }
}

TEST_CASE("a held-out set with the same content as the training files causes a warning") {
  const test::TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder / name).string(); };
  folder.write("a.txt", "x\tone\ny\tone\n");
  folder.write("b.txt", "x\ttwo\n");
  folder.write("copy.txt", "x\ttwo\n");
  DataOptions options;
  options.task = "labelled_text";
  options.text.train_text = std::vector<std::string>{path("a.txt"), path("b.txt")};
  options.text.validation_text = path("copy.txt");
  options.text.test_text = path("a.txt");
  const std::vector<std::string> notes = load_corpus(options).notes;
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].starts_with("warning: data.validation_text has the same content as "));
  CHECK(notes[1].starts_with("warning: data.test_text has the same content as "));
  folder.write("copy.txt", "x\tsix\n");
  options.text.test_text.clear();
  CHECK(load_corpus(options).notes.empty());

  // No warning for a set that contains only one of the training files.
  options = {};
  options.task = "parallel_text";
  options.pairs.train_source = options.pairs.validation_source = path("a.txt");
  options.pairs.train_target = path("b.txt");
  options.pairs.validation_target = folder.write("c.txt", "y\none\n").string();
  folder.write("b.txt", "x\ntwo\n");
  CHECK(load_corpus(options).notes.empty());
  options.pairs.validation_target = path("b.txt");
  CHECK(load_corpus(options).notes.size() == 1);
}

TEST_CASE("a held-out set that lacks most of the classes causes a warning") {
  const test::TemporaryFolder folder;
  const auto lines = [](const std::vector<std::string>& labels, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) {
      for (const std::string& label : labels) text += label + "\tword\n";
    }
    return text;
  };
  DataOptions options;
  options.task = "labelled_text";
  options.text.train_text =
      std::vector<std::string>{folder.write("train.txt", lines({"a", "b", "c", "d"}, 5)).string()};
  const auto notes_of = [&](const std::vector<std::string>& labels, int times) {
    options.text.validation_text = folder.write("validation.txt", lines(labels, times)).string();
    return load_corpus(options).notes;
  };
  const std::vector<std::string> notes = notes_of({"c"}, 40);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].starts_with("warning: the validation set has 1 of 4 classes; "));
  CHECK(notes_of({"c"}, 39).empty());
  CHECK(notes_of({"c", "b"}, 20).empty());
}

TEST_CASE("a target file with the same content as its source file causes a warning") {
  const test::TemporaryFolder folder;
  DataOptions options;
  options.task = "parallel_text";
  options.pairs.train_source = folder.write("a.txt", "one\ntwo\n").string();
  options.pairs.train_target = folder.write("b.txt", "un\ndeux\n").string();
  options.pairs.validation_source = folder.write("c.txt", "one\n").string();
  options.pairs.validation_target = folder.write("d.txt", "un\n").string();
  CHECK(load_corpus(options).notes.empty());
  options.pairs.train_target = options.pairs.train_source;
  options.pairs.validation_target = options.pairs.validation_source;
  const std::vector<std::string> notes = load_corpus(options).notes;
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].starts_with("warning: data.train_target has the same content as "));
  CHECK(notes[1].starts_with("warning: data.validation_target has the same content as "));
}
