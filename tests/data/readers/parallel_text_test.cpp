// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/parallel_text.h"

#include <doctest/doctest.h>
#include <xxhash.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/text/tokenizer.h"
#include "tests/data/readers/text_folder.h"

using namespace tapestry;
using Ids = std::vector<std::int32_t>;
using Notes = std::vector<std::string>;

namespace {

/// Two training pairs and one validation pair.
struct ParallelFolder : test::PairFolder {
  ParallelFolder() : PairFolder("ein Hund .\nein Kind.\n", "a dog .\na child.\n") {
    write_validation("ein Haus.\n", "a house.\n");
    options.validation_source = "valid.de";
    options.validation_target = "valid.en";
  }

  void write_validation(std::string_view source, std::string_view target) const {
    folder.write("valid.de", source);
    folder.write("valid.en", target);
  }
};

}  // namespace

TEST_CASE("pairs are read, split into tokens and numbered by the training vocabulary") {
  ParallelFolder text;
  Corpus corpus = text.load();
  CHECK(corpus.source_vocabulary == Vocabulary({".", "ein", "Hund", "Kind"}));
  CHECK(corpus.target_vocabulary == Vocabulary({".", "a", "child", "dog"}));
  REQUIRE(corpus.train.size() == 2);
  CHECK(corpus.train[0] == Example{{5, 6, 4}, {5, 7, 4}});
  CHECK(corpus.train[1] == Example{{5, 7, 4}, {5, 6, 4}});
  REQUIRE(corpus.validation.size() == 1);
  CHECK(corpus.validation[0] == Example{{5, unk_id, 4}, {5, unk_id, 4}});
  CHECK(corpus.test.empty());
  CHECK(corpus.notes.empty());
  text.options.test_source = text.name("train.de");  // absolute
  text.options.test_target = "train.en";
  CHECK(text.load().test == corpus.train);
  text.folder.write("train.de",
                    "\xEF\xBB\xBF"
                    "ein Hund .\r\nein Kind.\r\n");
  CHECK(text.load().train == corpus.train);
}

TEST_CASE("word options apply to both sides, which may share a vocabulary") {
  ParallelFolder text;
  text.words.min_frequency = 2;
  CHECK(text.load().source_vocabulary == Vocabulary({".", "ein"}));
  CHECK(text.load().train[0].source == Ids{5, unk_id, 4});
  text.words.min_frequency = 1;
  text.words.max_vocabulary = 1;
  CHECK(text.load().target_vocabulary == Vocabulary({"."}));
  text.words = {};
  text.options.shared_vocabulary = true;
  const Corpus corpus = text.load();
  CHECK(corpus.source_vocabulary == Vocabulary({".", "a", "ein", "Hund", "Kind", "child", "dog"}));
  CHECK(corpus.target_vocabulary == corpus.source_vocabulary);
  text.words.lowercase = true;
  text.write("Ärger\närger\n", "x\nx\n");
  text.write_validation("X\n", "Der Ärger\n");
  const Corpus lowercase = text.load();
  CHECK(lowercase.source_vocabulary == Vocabulary({"x", "ärger"}));
  CHECK(lowercase.validation_lines.target_texts == std::vector<std::string>{"Der Ärger"});
  text.words.min_frequency = 5;
  text.check_rejected_now({"no word occurs 5 times"});
}

TEST_CASE("pairs of blank lines, and long training pairs, are skipped with a note") {
  ParallelFolder text;
  const std::vector<Example> train = text.load().train;
  text.write("ein Hund .\n\n \nein Kind.\n", "a dog .\n\u00A0\n\na child.\n");
  text.write_validation("\nein Haus.\n\n\n", "\na house.\n\n\n");
  CHECK(text.load().train == train);
  CHECK(text.load().notes == Notes{"train: 2 of 4 pairs skipped: both lines are blank",
                                   "validation: 3 of 4 pairs skipped: both lines are blank"});
  text.options.max_tokens = 3;
  text.write_validation("ein sehr sehr großes Haus.\n", "a house.\n");
  text.write("ein Hund .\nein Kind.\n", "a dog .\na child.\n");
  CHECK(text.load().notes.empty());
  CHECK(text.load().validation.size() == 1);
  for (const auto& [source, target] :
       {std::pair{"ein Hund .\nein Kind.\n", "a dog .\na very small child.\n"},
        {"ein Hund .\nein kleines Kind.\n", "a dog .\na child.\n"}}) {
    text.write(source, target);
    const Corpus corpus = text.load();
    CHECK(corpus.train.size() == 1);
    CHECK(corpus.source_vocabulary.id("Kind") == unk_id);
    CHECK(corpus.notes == Notes{"train: 1 of 2 pairs skipped: a side is longer than 3 tokens"});
  }
  text.options.max_tokens = 1;
  text.check_rejected_now({"train: no sentence pair remains", "max_tokens (1)"});
  text.write_validation("\n\n", "\n\n");
  text.options.max_tokens = 0;
  text.check_rejected_now({"validation: no sentence pair remains"});
}

TEST_CASE("files whose lines do not match are rejected with both names and the line") {
  ParallelFolder text;
  text.write("ein Hund .\nein Kind.\n", "a dog .\n \n");
  text.check_rejected_now({"train.en:2: the line is blank", "train.de:2 is not"});
  text.write("ein Hund .\nein Kind.\n", "a dog .\na child.\n");
  text.write_validation("\n", "a house.\n");
  text.check_rejected_now({"valid.de:1: the line is blank", "valid.en:1 is not"});
  text.write("ein Hund .\nein Kind.\n", "a dog .\na child.\na house.\n");
  text.check_rejected_now({"train.de: found 2 lines", "train.en has 3", "line 3 is not"});
  text.write("ein Hund .\n", "a dog .\na child.\na house.\n");
  text.check_rejected_now({"train.de: found 1 lines", "line 2 is not"});
  text.write("ein Hund .\n", "\na child.\na house.\n");
  text.check_rejected_now({"line 1 is not"});
}

TEST_CASE("a missing or unnamed file is rejected") {
  ParallelFolder text;
  text.options.test_source = "test.de";
  text.check_rejected_now(
      {"data.test_target: found no file name", "set both data.test_source and data.test_target"});
  std::swap(text.options.test_source, text.options.test_target);
  text.check_rejected_now({"data.test_source: found no file name"});
  text.options.test_source = "test.de";
  text.check_rejected_now({"test.de: cannot be read"});
  text.options.train_source.clear();
  text.check_rejected_now({"data.train_source: found no file name"});
  text.options.train_source = "train.de";
  text.options.validation_target.clear();
  text.check_rejected_now({"data.validation_target: found no file name", "data.validation_source"});
}

TEST_CASE("the files that were read are listed by key, with size and digest") {
  ParallelFolder text;
  text.options.test_source = "train.de";
  text.options.test_target = "train.en";
  const std::vector<DataFile> files = text.load().files;
  REQUIRE(files.size() == 6);
  const auto digest = [](std::string_view bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
  };
  CHECK(files[0] == DataFile{"data.train_source", text.name("train.de"), 21,
                             digest("ein Hund .\nein Kind.\n")});
  CHECK(files[1] ==
        DataFile{"data.train_target", text.name("train.en"), 17, digest("a dog .\na child.\n")});
  CHECK(files[2].key == "data.validation_source");
  CHECK(files[3].key == "data.validation_target");
  CHECK(files[4] == DataFile{"data.test_source", files[0].path, files[0].bytes, files[0].digest});
  CHECK(files[5].key == "data.test_target");
}

TEST_CASE("text is encoded with given vocabularies, and other words are unknown") {
  ParallelFolder text;
  text.words.min_frequency = 3;  // no word occurs three times
  const FixedVocabularies fixed = {Vocabulary({"Haus", "ein"}), Vocabulary({"a", "house"})};
  const Corpus corpus = text.load(&fixed);
  CHECK(corpus.source_vocabulary == fixed.source);
  CHECK(corpus.target_vocabulary == fixed.target);
  CHECK(corpus.train[0] == Example{{5, unk_id, unk_id}, {4, unk_id, unk_id}});
  CHECK(corpus.validation[0] == Example{{5, 4, unk_id}, {4, 5, unk_id}});
}

TEST_CASE("subwords are learned from both sides together or from each side separately") {
  ParallelFolder text;
  text.words.subwords = {.kind = SubwordKind::bpe, .vocabulary_size = 22};
  const Corpus apart = text.load();
  CHECK(apart.source_vocabulary.size() == 22);
  CHECK(apart.target_vocabulary.size() == 22);
  CHECK(apart.source_vocabulary != apart.target_vocabulary);
  const Tokenizer source = sentence_tokenizer(apart.source_vocabulary, text.words);
  CHECK(join(source, apart.source_vocabulary.decode(apart.train[1].source)) == "ein Kind.");
  const Tokenizer target = sentence_tokenizer(apart.target_vocabulary, text.words);
  CHECK(join(target, apart.target_vocabulary.decode(apart.train[1].target)) == "a child.");
  CHECK(join(target, apart.target_vocabulary.decode(apart.validation[0].target)) ==
        "a ho \u2047 .");

  text.options.shared_vocabulary = true;
  const Corpus joint = text.load();
  CHECK(joint.source_vocabulary == joint.target_vocabulary);
  const Tokenizer both = sentence_tokenizer(joint.source_vocabulary, text.words);
  CHECK(join(both, joint.source_vocabulary.decode(joint.train[0].source)) == "ein Hund .");
  CHECK(join(both, joint.source_vocabulary.decode(joint.train[0].target)) == "a dog .");
}

TEST_CASE("the size named for too large vocabularies is possible for both sides") {
  for (const bool swapped : {false, true}) {
    ParallelFolder text;
    if (swapped) std::swap(text.options.train_source, text.options.train_target);
    text.words.subwords = {.kind = SubwordKind::bpe, .vocabulary_size = 5000};
    const std::string hint = hint_of([&] { text.load(); });
    const std::size_t max_size = std::stoul(hint.substr(hint.find(" to ") + 4));
    text.words.subwords.vocabulary_size = max_size;
    CHECK(text.load().target_vocabulary.size() == max_size);
    ++text.words.subwords.vocabulary_size;
    CHECK(hint_of([&] { text.load(); }) == hint);
  }
}

TEST_CASE("given subword models are used, and no subword file is read") {
  ParallelFolder text;
  text.words.subwords = {.kind = SubwordKind::bpe, .vocabulary_size = 22};
  const Corpus first = text.load();
  const FixedVocabularies fixed = {first.source_vocabulary, first.target_vocabulary};
  text.words.subwords.kind = SubwordKind::file;
  text.words.subwords.file = "missing.model";
  const Corpus again = text.load(&fixed);
  CHECK(again.train == first.train);
  CHECK(fingerprint(again) == fingerprint(first));
  // The fingerprint includes the model, even if all examples are equal.
  Corpus words = first;
  words.source_vocabulary = Vocabulary::from_text(first.source_vocabulary.to_text());
  CHECK(fingerprint(words) != fingerprint(first));
}

TEST_CASE(
    "max_tokens counts subwords, and subwords are also learned from pairs that are too long") {
  ParallelFolder text;
  text.write("ein Hund .\nein Hund.\nein.\n", "a dog .\na dog.\na child , and a dog\n");
  text.words.subwords = {.kind = SubwordKind::bpe, .vocabulary_size = 22};
  const Corpus all = text.load();
  REQUIRE(all.train[2].target.size() > 5);
  REQUIRE(all.train[2].source.size() < 5);
  REQUIRE(all.train[1].target.size() <= 5);
  text.options.max_tokens = 5;
  const Corpus corpus = text.load();
  CHECK(corpus.train == std::vector(all.train.begin(), all.train.begin() + 2));
  CHECK(corpus.source_vocabulary == all.source_vocabulary);
  CHECK(corpus.target_vocabulary == all.target_vocabulary);
}
