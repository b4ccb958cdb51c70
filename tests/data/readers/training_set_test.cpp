// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/training_set.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/example_file.h"
#include "data/readers/labelled_text.h"
#include "data/readers/language_model_corpus.h"
#include "data/readers/parallel_text.h"
#include "tests/data/rejection.h"
#include "tests/support/temporary_folder.h"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

using test::contains;
using test::rejection;
using test::TemporaryFolder;

std::vector<Example> all_of(const Examples& examples) {
  std::vector<Example> all;
  for (std::size_t i = 0; i < examples.size(); ++i) all.push_back(examples[i]);
  return all;
}

/// A folder with text of all kinds, and a folder for the cache.
struct Texts {
  Texts() {
    std::string source, target, labelled, text;
    for (int i = 0; i < 60; ++i) {
      const bool blank = i % 7 == 3, half = i % 20 == 11;
      source += blank ? "\n" : fmt::format("der {} Hund {}\n", i, std::string(i % 5, 'x'));
      target += blank || half ? "\n" : fmt::format("the {} dog\n", i);
      labelled += i % 13 == 5 ? "no tab\n" : fmt::format("{}\ta b {}\n", i % 3, i);
      text += fmt::format("line {} of a text\n", i * i);
    }
    folder.write("a.de", source);
    folder.write("a.en", target);
    folder.write("b.de", "eins\nzwei drei\n");
    folder.write("b.en", "one\ntwo three four\n");
    folder.write("labels", labelled);
    folder.write("text", text);
    folder.write("more", "another text\nwith two lines\n");
    fs::create_directory(folder / "cache");
    cached.cache = CacheUse::always;
    cached.cache_folder = folder / "cache";
    in_memory.cache = CacheUse::never;
  }

  Corpus pairs(const TrainingSetOptions& training, const FixedVocabularies* fixed = nullptr,
               std::size_t max_tokens = 5) const {
    ParallelTextOptions options;
    options.train_source = std::vector<std::string>{"a.de", "b.de"};
    options.train_target = std::vector<std::string>{"a.en", "b.en"};
    options.validation_source = "b.de";
    options.validation_target = "b.en";
    options.max_tokens = max_tokens;
    return load_parallel_text(options, {}, folder.path(), fixed, OnBadLine::skip, training);
  }
  Corpus labels(const TrainingSetOptions& training,
                const FixedVocabularies* fixed = nullptr) const {
    return load_labelled_text({.train_text = "labels"}, {}, folder.path(), fixed, OnBadLine::skip,
                              training);
  }
  Corpus windows(const TrainingSetOptions& training,
                 const FixedVocabularies* fixed = nullptr) const {
    return load_language_model_corpus({.train_text = std::vector<std::string>{"text", "more"}},
                                      {.context = 8, .validation_share = 0.3}, {}, folder.path(),
                                      fixed, training);
  }
  fs::path cache_file() const { return folder / "cache/train.examples"; }

  TemporaryFolder folder;
  TrainingSetOptions cached, in_memory;
};

void check_same(const Corpus& found, const Corpus& expected) {
  CHECK(found.train.empty());
  REQUIRE(found.train_file != nullptr);
  CHECK(all_of(found.training()) == all_of(expected.training()));
  for (std::size_t i = 0; i < expected.train_lines.lines.size(); ++i) {
    CHECK(found.train_file->line(i) == expected.train_lines.lines[i]);
  }
  CHECK(found.train_lines.source_file == expected.train_lines.source_file);
  CHECK(found.train_lines.target_file == expected.train_lines.target_file);
  CHECK(found.validation == expected.validation);
  CHECK(found.source_vocabulary == expected.source_vocabulary);
  CHECK(found.target_vocabulary == expected.target_vocabulary);
  CHECK(found.files == expected.files);
  CHECK(found.notes == expected.notes);
  CHECK(fingerprint(found) == fingerprint(expected));
}

TEST_CASE("a corpus with examples in a new or an existing file equals a corpus in memory") {
  const Texts texts;
  const auto check = [&](const auto& load) {
    const Corpus expected = load(texts.in_memory, nullptr);
    fs::remove(texts.cache_file());
    check_same(load(texts.cached, nullptr), expected);
    const auto written = fs::last_write_time(texts.cache_file());
    check_same(load(texts.cached, nullptr), expected);
    const FixedVocabularies fixed{.source = expected.source_vocabulary,
                                  .target = expected.target_vocabulary};
    check_same(load(texts.cached, &fixed), expected);
    CHECK(fs::last_write_time(texts.cache_file()) == written);
  };
  check(
      [&](auto& training, const FixedVocabularies* fixed) { return texts.pairs(training, fixed); });
  check([&](auto& training, const FixedVocabularies* fixed) {
    return texts.labels(training, fixed);
  });
  check([&](auto& training, const FixedVocabularies* fixed) {
    return texts.windows(training, fixed);
  });
}

TEST_CASE("the notes of all corpora are kept in order") {
  const Texts texts;
  const Corpus corpus = texts.pairs(texts.in_memory, nullptr, 3);
  REQUIRE(corpus.notes.size() == 3);
  CHECK(contains(corpus.notes[0], "train: 2 of 60"));
  CHECK(contains(corpus.notes[1], "both lines are blank"));
  CHECK(contains(corpus.notes[2], "a side is longer than 3 tokens"));
  CHECK(corpus.train_weights.size() == 2);
}

TEST_CASE("a file is recreated if the text, vocabulary, options or the file itself have changed") {
  const Texts texts;
  const auto has_warning = [](const Corpus& corpus, const char* reason) {
    for (const std::string& note : corpus.notes) {
      if (!note.starts_with("warning: ")) continue;
      CHECK(contains(note, reason));
      CHECK(note.ends_with("; it is recreated"));
      return true;
    }
    return false;
  };
  const char* stale = "was made from different text, vocabularies or options";
  CHECK_FALSE(has_warning(texts.pairs(texts.cached), ""));
  CHECK_FALSE(has_warning(texts.pairs(texts.cached), ""));
  CHECK(has_warning(texts.pairs(texts.cached, nullptr, 6), stale));
  CHECK_FALSE(has_warning(texts.pairs(texts.cached, nullptr, 6), ""));
  CHECK(has_warning(texts.pairs(texts.cached, nullptr, 5), stale));

  // Size and time are equal; only the content differs.
  const auto time = fs::last_write_time(texts.folder / "b.de");
  texts.folder.write("b.de", "eins\nzwei vier\n");
  fs::last_write_time(texts.folder / "b.de", time);
  Corpus changed = texts.pairs(texts.cached);
  CHECK(has_warning(changed, stale));
  CHECK(all_of(changed.training()) == all_of(texts.pairs(texts.in_memory).training()));

  const FixedVocabularies fixed{.source = Vocabulary({"der", "eins"}),
                                .target = Vocabulary({"the"})};
  changed = texts.pairs(texts.cached, &fixed);
  CHECK(has_warning(changed, stale));
  CHECK(all_of(changed.training()) == all_of(texts.pairs(texts.in_memory, &fixed).training()));

  for (const char* content : {"", "something else"}) {
    texts.folder.write("cache/train.examples", content);
    changed = texts.pairs(texts.cached);
    CHECK(has_warning(changed, "is too short"));
    CHECK(all_of(changed.training()) == all_of(texts.pairs(texts.in_memory).training()));
  }
  CHECK_FALSE(has_warning(texts.pairs(texts.cached), ""));
}

TEST_CASE("every corpus is repeated by its weight") {
  Texts texts;
  texts.folder.write("a.de", "ein\n");
  texts.folder.write("a.en", "a\n");
  const std::vector<Example> once = all_of(texts.pairs(texts.in_memory).training());
  REQUIRE(once.size() == 3);
  for (TrainingSetOptions* training : {&texts.in_memory, &texts.cached}) {
    training->corpus_weights = {1, 3};
    const Corpus corpus = texts.pairs(*training);
    CHECK(all_of(corpus.training()) ==
          std::vector<Example>{once[0], once[1], once[2], once[1], once[2], once[1], once[2]});
    CHECK(fingerprint(corpus) == fingerprint(texts.pairs(texts.in_memory)));
  }
  texts.in_memory.corpus_weights = {2};
  CHECK(rejection([&] { texts.pairs(texts.in_memory); }) ==
        "data.corpus_weights: found 1 weights, expected 2, one for each training corpus");
  CHECK(all_of(texts.labels(texts.in_memory).training()).size() ==
        2 * texts.labels(texts.in_memory).train.size());
}

TEST_CASE("each of several texts has a separate key and is divided separately") {
  const Texts texts;
  const Corpus corpus = texts.windows(texts.in_memory);
  REQUIRE(corpus.files.size() == 2);
  CHECK(corpus.files[0].key == "data.train_text");
  CHECK(corpus.files[1].key == "data.train_text[2]");
  CHECK(config_key("data.train_text[2]") == "data.train_text");
  CHECK(config_key("data.train_images.labels") == "data.train_images");
  REQUIRE(corpus.train_weights.size() == 2);
  CHECK(corpus.train_weights[0].count + corpus.train_weights[1].count == corpus.train.size());
  CHECK(corpus.train_weights[1].count == 3);  // 20 of the 28 characters
}

TEST_CASE("large text is cached in a file, which is temporary if no folder is given") {
  Texts texts;
  const std::uint64_t bytes = fs::file_size(texts.folder / "labels");
  TrainingSetOptions automatic;
  automatic.large_text = bytes + 1;
  CHECK(texts.labels(automatic).train_file == nullptr);
  automatic.large_text = bytes;
  const TemporaryFolder temporary;
  ::setenv("TMPDIR", temporary.path().c_str(), 1);
  const Corpus found = texts.labels(automatic);
  CHECK(fs::is_empty(temporary.path()));
  ::unsetenv("TMPDIR");
  check_same(found, texts.labels(texts.in_memory));
  CHECK_FALSE(fs::exists(texts.cache_file()));
  CHECK_FALSE(is_cached({.cache = CacheUse::never}, std::uint64_t{1} << 40U));
  CHECK(is_cached({}, std::uint64_t{1} << 28U));
  CHECK_FALSE(is_cached({}, (std::uint64_t{1} << 28U) - 1));
}

TEST_CASE("a read-only cache is used if it is valid, and otherwise stays unchanged") {
  Texts texts;
  texts.cached.cache_is_read_only = true;
  check_same(texts.labels(texts.cached), texts.labels(texts.in_memory));
  CHECK_FALSE(fs::exists(texts.cache_file()));
  texts.cached.cache_is_read_only = false;
  texts.pairs(texts.cached);
  const auto written = fs::last_write_time(texts.cache_file());
  texts.cached.cache_is_read_only = true;
  Corpus found = texts.labels(texts.cached);
  CHECK(all_of(found.training()) == texts.labels(texts.in_memory).train);
  check_same(texts.pairs(texts.cached), texts.pairs(texts.in_memory));
  CHECK(fs::last_write_time(texts.cache_file()) == written);
}

}  // namespace
}  // namespace tapestry
