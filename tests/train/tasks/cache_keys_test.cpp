// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/example_file.h"
#include "data/text/subwords.h"
#include "tests/train/wiring/keys_tasks.h"
#include "train/config/load.h"
#include "train/tasks/data_source.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

/// Tests that the cache of tokenized training examples (data.cache) is reused only if nothing that
/// the examples depend on has changed. After any change, the examples must equal the examples of a
/// run without a cache.
namespace tapestry {
namespace {

using Lines = std::vector<std::string>;

/// A change of a key, or of the content of the files that it names.
struct Change {
  std::string key;                    ///< a key of the section `data`
  Lines after{};                      ///< overrides of the changed config only
  Lines before{};                     ///< overrides of both configs
  std::vector<std::string> edited{};  ///< files that get the content of FILE.edited
};

struct CachedTask {
  std::string name;  ///< name of the config
  std::vector<Change> changes;
};

template <class T>
std::vector<T> operator+(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Lines weights = {"data.corpus_weights=[1, 3]"};
const Lines unigram = {"data.subwords=unigram", "data.vocabulary_size=34"};
const Lines from_file = {"data.subwords=file", "data.subword_file=%/a.model"};
const Lines from_files = from_file + Lines{"data.target_subword_file=%/a.model"};
/// One side has five equally frequent words; the other side has eleven words, which occur 1, 2,
/// ..., 11 times.
const Lines rare_targets = {"data.train_source=%/even", "data.train_target=%/graded"};
const Lines rare_sources = {"data.train_source=%/graded", "data.train_target=%/even"};

/// Adds changes of the keys that apply to all texts.
std::vector<Change> with_word_changes(const std::vector<Change>& changes) {
  const std::vector<Change> all = {
      {"lowercase", {"data.lowercase=true"}},
      {"min_frequency", {"data.min_frequency=40"}},
      {"max_vocabulary", {"data.max_vocabulary=4"}},
      {"corpus_weights", weights},
      {"subwords", unigram},
      {"subwords", {"data.subwords=bpe"}, unigram},
      {"lowercase", {"data.lowercase=true"}, unigram},
      {"vocabulary_size", {"data.vocabulary_size=35"}, unigram},
      {"character_coverage", {"data.character_coverage=0.98"}, unigram},
      {"byte_fallback", {"data.byte_fallback=true", "data.vocabulary_size=290"}, unigram},
      {"text_normalization", {"data.text_normalization=nmt_nfkc_cf"}, unigram},
  };
  return changes + all;
}

/// The changes of the list data.train_text: its files, their order, their content, and the border
/// between them.
std::vector<Change> changes_of_texts(const std::string& extension) {
  const std::string a = "%/a." + extension, b = "%/b." + extension;
  return {{"train_text", {"data.train_text=" + a}},
          {"train_text", {"data.train_text=[" + b + ", " + a + "]"}, weights},
          {"train_text", {}, {}, {"a." + extension}},
          {"train_text", {}, {}, {"b." + extension}},
          {"lowercase", {"data.lowercase=true"}, from_file},
          {"subword_file", {"data.subword_file=%/b.model"}, from_file},
          {"subword_file", {"data.subword_file=%/plain.model"}, from_file}};
}

const std::vector<CachedTask> tasks = {
    {"pairs",
     with_word_changes({
         {"train_source", {"data.train_source=%/a.source", "data.train_target=%/a.target"}},
         {"train_source",
          {"data.train_source=[%/b.source, %/a.source]",
           "data.train_target=[%/b.target, %/a.target]"},
          weights},
         {"train_target", {"data.train_target=[%/a.source, %/b.target]"}},
         {"train_source", {}, {}, {"a.source"}},
         {"train_source", {}, {}, {"b.source"}},
         {"train_target", {}, {}, {"a.target"}},
         {"train_target", {}, {}, {"b.target"}},
         {"shared_vocabulary", {"data.shared_vocabulary=true"}},
         {"max_tokens", {"data.max_tokens=4"}},
         // The vocabulary comes from a file and does not change.
         {"max_tokens", {"data.max_tokens=8"}, from_files},
         {"lowercase", {"data.lowercase=true"}, from_files},
         {"min_frequency", {"data.min_frequency=2"}, rare_targets},
         {"min_frequency", {"data.min_frequency=2"}, rare_sources},
         {"max_vocabulary", {"data.max_vocabulary=9"}, rare_targets},
         {"max_vocabulary", {"data.max_vocabulary=9"}, rare_sources},
         {"subword_file", {"data.subword_file=%/b.model"}, from_files},
         {"target_subword_file", {"data.target_subword_file=%/b.model"}, from_files},
         // A model with the same pieces that normalizes full-width letters differently.
         {"subword_file", {"data.subword_file=%/plain.model"}, from_files},
         {"target_subword_file", {"data.target_subword_file=%/plain.model"}, from_files},
         {"subword_file", {}, from_files, {"a.model"}},
     })},
    {"labels", with_word_changes(changes_of_texts("labels"))},
    {"text", with_word_changes(
                 changes_of_texts("text") +
                 std::vector<Change>{
                     {"unit", {"data.unit=word"}},
                     {"context", {"data.context=5"}},
                     {"validation_text", {"data.validation_text="}},
                     {"validation_share", {"data.validation_share=0.4"}, {"data.validation_text="}},
                 })},
};

/// Keys without an effect on the training examples of a valid file.
const std::set<std::string> keys_without_effect = {"task",
                                                   "folder",
                                                   "cache",
                                                   "on_bad_line",
                                                   "validation_source",
                                                   "validation_target",
                                                   "test_source",
                                                   "test_target",
                                                   "validation_text",
                                                   "test_text",
                                                   "subword_alpha",
                                                   "subword_dropout"};

struct CacheWorkplace : test::Workplace {
  CacheWorkplace() {
    std::vector<std::string> words, others;
    for (const char* first : {"ka", "mo", "Ka", "ti", "su"}) {
      for (const char* last : {"lo", "re", "pi", "Zu"}) {
        words.push_back(std::string(first) + last);
        others.push_back(std::string(last) + first);
      }
    }
    for (Lines* each : {&words, &others}) each->insert(each->begin() + 14, "\uFF4B\uFF41");
    std::uint64_t seed = 1;
    for (const std::string part : {"a", "b", "validation"}) {
      const std::size_t count = part == "a" ? 150 : part == "b" ? 60 : 5;
      const Lines sources = test::word_lines(count, seed++, words);
      const Lines targets = test::word_lines(count, seed++, others);
      Lines labelled;
      for (std::size_t i = 0; i < count; ++i) {
        labelled.push_back((i % 3 == 0 ? "Up\t" : "down\t") + sources[i]);
      }
      put(part + ".source", sources);
      put(part + ".target", targets);
      put(part + ".labels", labelled);
      put(part + ".text", sources);
    }
    Lines even, graded;
    for (std::size_t i = 0; i < 66; ++i) {
      even.push_back(words[i % 5]);
      std::size_t word = 0;
      while ((word + 1) * (word + 2) / 2 <= i) ++word;
      graded.push_back(others[10 - word]);
    }
    put("even", even);
    put("graded", graded);
    const auto model = [](std::size_t size, TextNormalization normalization, const Lines& lines) {
      return train_subwords(
          lines,
          {.kind = SubwordKind::unigram, .vocabulary_size = size, .normalization = normalization},
          "words");
    };
    Lines letters = test::word_lines(300, 9, words);
    for (std::string& line : letters) {
      for (std::size_t at; (at = line.find("\uFF4B\uFF41")) != line.npos;)
        line.replace(at, 6, "ka");
    }
    const auto a = model(40, TextNormalization::nmt_nfkc, letters);
    const auto plain = model(40, TextNormalization::identity, letters);
    REQUIRE(a->tokens() == plain->tokens());
    write("a.model", a->serialized());
    write("plain.model", plain->serialized());
    write("a.model.edited", plain->serialized());
    write("b.model", model(36, TextNormalization::nmt_nfkc, letters)->serialized());

    const auto config = [&](const std::string& name, const std::string& data,
                            const std::string& kind) {
      write(name + ".yaml", "data: {" + data + "}\nmodel: {kind: " + kind + ", max_length: 60}\n");
    };
    config("pairs",
           "task: parallel_text, train_source: [a.source, b.source], train_target: [a.target, "
           "b.target], validation_source: validation.source, validation_target: validation.target",
           "seq2seq");
    config("labels",
           "task: labelled_text, train_text: [a.labels, b.labels], validation_text: "
           "validation.labels",
           "classifier");
    config("text",
           "task: text, train_text: [a.text, b.text], validation_text: validation.text, context: 6",
           "language_model");
  }

  Config config(const std::string& name, Lines overrides) const {
    for (std::string& each : overrides) {
      for (std::size_t at; (at = each.find('%')) != each.npos;)
        each.replace(at, 1, path().string());
    }
    return load_config((*this / (name + ".yaml")).string(), overrides);
  }

  /// The training examples, from memory or from the cache.
  std::vector<Example> examples(const std::string& name, const Lines& overrides,
                                CacheUse cache) const {
    Config from = config(name, overrides);
    from.data.training.cache = cache;
    from.data.training.cache_folder = *this / "cache";
    const Corpus corpus = load_fitting_corpus(from);
    REQUIRE((corpus.train_file != nullptr) == (cache == CacheUse::always));
    const Examples all = corpus.training();
    std::vector<Example> copies;
    for (std::size_t i = 0; i < all.size(); ++i) copies.push_back(all[i]);
    return copies;
  }

  /// Swaps a file and its edited version.
  void exchange(const std::string& file) const {
    const std::string content = test::read_text(*this / file);
    write(file, test::read_text(*this / (file + ".edited")));
    write(file + ".edited", content);
  }

 private:
  /// Writes a file and its edited version, which has the same lines in a different order.
  void put(const std::string& name, Lines lines) {
    write(name, test::joined(lines));
    std::swap(lines.front(), lines[lines.size() / 2]);
    write(name + ".edited", test::joined(lines));
  }
};

void check_change(const CacheWorkplace& work, const std::string& name, const Change& change) {
  CAPTURE(name);
  CAPTURE(change.key);
  const Lines after = change.before + change.after;
  CAPTURE(test::joined(after));
  std::filesystem::remove_all(work / "cache");
  std::filesystem::create_directory(work / "cache");
  const auto before = work.examples(name, change.before, CacheUse::always);
  CHECK(before == work.examples(name, change.before, CacheUse::never));
  for (const std::string& file : change.edited) work.exchange(file);
  const auto expected = work.examples(name, after, CacheUse::never);
  CHECK(before != expected);
  CHECK(work.examples(name, after, CacheUse::always) == expected);
  for (const std::string& file : change.edited) work.exchange(file);
  CHECK(work.examples(name, change.before, CacheUse::always) == before);
}

TEST_CASE("the cache is rebuilt if a key or file that it depends on changes or changes back") {
  const CacheWorkplace work;
  for (const CachedTask& task : tasks) {
    for (const Change& change : task.changes) check_change(work, task.name, change);
  }
}

TEST_CASE("every data key that affects the examples of a cached task has a test case") {
  const CacheWorkplace work;
  for (const CachedTask& task : tasks) {
    CAPTURE(task.name);
    const Lines files = task.name == "pairs" ? from_files : from_file;
    std::set<std::string> keys;
    for (const Lines& overrides : {Lines{}, unigram, files}) {
      const Lines used = test::keys_in_use(work.config(task.name, overrides), "data");
      keys.insert(used.begin(), used.end());
    }
    for (const std::string& key : keys) {
      const bool changes = std::ranges::find(task.changes, key, &Change::key) != task.changes.end();
      const bool has_one_vocabulary = key == "target_subword_file" && task.name != "pairs";
      CHECK_MESSAGE((changes || keys_without_effect.contains(key) || has_one_vocabulary), key,
                    " has no row in `tasks`");
    }
  }
}

}  // namespace
}  // namespace tapestry
