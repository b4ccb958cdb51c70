#include "data/readers/parallel_text.h"

#include <doctest/doctest.h>
#include <xxhash.h>

#include <utility>

#include "data/text/tokenizer.h"
#include "tests/data/refusal.h"
#include "tests/support/temporary_folder.h"

using namespace tapestry;
using tapestry::test::contains;
using tapestry::test::hint_of;
using tapestry::test::refusal;
using tapestry::test::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

namespace {

/// Files with two training pairs and one validation pair, and options that name them.
struct TextFolder {
  TextFolder() {
    folder.write("train.de", "ein Hund .\nein Kind.\n");
    folder.write("train.en", "a dog .\na child.\n");
    folder.write("valid.de", "ein Haus.\n");
    folder.write("valid.en", "a house.\n");
    options.train_source = "train.de";
    options.train_target = "train.en";
    options.validation_source = "valid.de";
    options.validation_target = "valid.en";
  }

  Corpus load() const { return load_parallel_text(options, words, folder.path()); }
  std::string name(const char* file) const { return (folder.path() / file).string(); }
  std::string message() const {
    return refusal([this] { load(); });
  }

  TemporaryFolder folder;
  ParallelTextOptions options;
  WordOptions words;
};

}  // namespace

TEST_CASE("pairs are read, split into tokens and numbered by the training vocabulary") {
  const Corpus corpus = TextFolder().load();
  CHECK(corpus.source_vocabulary == Vocabulary({".", "ein", "Hund", "Kind"}));
  CHECK(corpus.target_vocabulary == Vocabulary({".", "a", "child", "dog"}));
  REQUIRE(corpus.train.size() == 2);
  CHECK(corpus.train[0] == Example{{5, 6, 4}, {5, 7, 4}});
  CHECK(corpus.train[1] == Example{{5, 7, 4}, {5, 6, 4}});
  CHECK(corpus.notes.empty());
}

TEST_CASE("words of held-out text are unknown unless training text has them") {
  const Corpus corpus = TextFolder().load();
  REQUIRE(corpus.validation.size() == 1);
  CHECK(corpus.validation[0] == Example{{5, unk_id, 4}, {5, unk_id, 4}});
}

TEST_CASE("a test set is read if its files are named") {
  TextFolder text;
  CHECK(text.load().test.empty());
  text.options.test_source = "train.de";
  text.options.test_target = "train.en";
  CHECK(text.load().test == text.load().train);
}

TEST_CASE("an absolute path is not relative to the base folder") {
  TextFolder text;
  text.options.train_source = text.name("train.de");
  CHECK(load_parallel_text(text.options, text.words, text.folder.path()).train.size() == 2);
}

TEST_CASE("lowercasing joins words that differ in case only") {
  TextFolder text;
  text.folder.write("train.de", "Ärger\närger\n");
  text.words.lowercase = true;
  CHECK(text.load().source_vocabulary == Vocabulary({"ärger"}));
}

TEST_CASE("words below min_frequency and beyond the vocabulary size are unknown") {
  TextFolder text;
  text.words.min_frequency = 2;
  CHECK(text.load().source_vocabulary == Vocabulary({".", "ein"}));
  CHECK(text.load().train[0].source == Ids{5, unk_id, 4});
  text.words.min_frequency = 1;
  text.words.max_vocabulary = 1;
  CHECK(text.load().target_vocabulary == Vocabulary({"."}));
}

TEST_CASE("a shared vocabulary is made of both sides") {
  TextFolder text;
  text.options.shared_vocabulary = true;
  const Corpus corpus = text.load();
  CHECK(corpus.source_vocabulary == Vocabulary({".", "a", "ein", "Hund", "Kind", "child", "dog"}));
  CHECK(corpus.target_vocabulary == corpus.source_vocabulary);
}

TEST_CASE("long pairs are skipped in training and vocabulary, and noted") {
  TextFolder text;
  text.options.max_tokens = 3;
  CHECK(text.load().notes.empty());
  text.folder.write("train.en", "a dog .\na very small child.\n");
  const Corpus corpus = text.load();
  CHECK(corpus.train.size() == 1);
  CHECK(corpus.source_vocabulary.id("Kind") == unk_id);
  CHECK(corpus.notes ==
        std::vector<std::string>{"train: 1 of 2 pairs skipped: a side is longer than 3 tokens"});
  text.folder.write("train.de", "ein sehr kleiner Hund .\nein Kind.\nja\n");
  text.folder.write("train.en", "a dog .\na child.\nyes\n");
  CHECK(text.load().train.size() == 2);
  CHECK(text.load().notes ==
        std::vector<std::string>{"train: 1 of 3 pairs skipped: a side is longer than 3 tokens"});
}

TEST_CASE("long pairs are kept in validation") {
  TextFolder text;
  text.options.max_tokens = 3;
  text.folder.write("valid.de", "ein sehr sehr großes Haus.\n");
  CHECK(text.load().validation.size() == 1);
}

TEST_CASE("a max_tokens that leaves no training pair is refused") {
  TextFolder text;
  text.options.max_tokens = 1;
  CHECK(contains(text.message(), "train: no sentence pair remains"));
}

TEST_CASE("pairs of blank lines are skipped and noted") {
  TextFolder text;
  text.folder.write("train.de", "ein Hund .\n\n \nein Kind.\n");
  text.folder.write("train.en", "a dog .\n\u00A0\n\na child.\n");
  const Corpus corpus = text.load();
  CHECK(corpus.train == TextFolder().load().train);
  CHECK(corpus.notes ==
        std::vector<std::string>{"train: 2 of 4 pairs skipped: both lines are blank"});
  text.folder.write("valid.de", "\nein Haus.\n\n\n");
  text.folder.write("valid.en", "\na house.\n\n\n");
  CHECK(text.load().notes.back() == "validation: 3 of 4 pairs skipped: both lines are blank");
}

TEST_CASE("one blank line in a pair is refused with both lines") {
  TextFolder text;
  text.folder.write("train.en", "a dog .\n \n");
  CHECK(text.message() == text.name("train.en") + ":2: the line is blank, but " +
                              text.name("train.de") + ":2 is not");
  text.folder.write("train.en", "a dog .\na child.\n");
  text.folder.write("valid.de", "\n");
  CHECK(text.message() == text.name("valid.de") + ":1: the line is blank, but " +
                              text.name("valid.en") + ":1 is not");
}

TEST_CASE("files with nothing but blank lines are refused") {
  TextFolder text;
  text.folder.write("valid.de", "\n\n");
  text.folder.write("valid.en", "\n\n");
  CHECK(contains(text.message(), "validation: no sentence pair remains"));
}

TEST_CASE("different numbers of lines are refused with both and the first line without a match") {
  TextFolder text;
  text.folder.write("train.en", "a dog .\na child.\na house.\n");
  CHECK(text.message() == text.name("train.de") + ": 2 lines, but " + text.name("train.en") +
                              " has 3: line n of one must be the translation of line n of the "
                              "other, and line 3 is not");
  text.folder.write("train.de", "ein Hund .\n");
  CHECK(contains(text.message(), ": 1 lines, but "));
  CHECK(contains(text.message(), ", and line 2 is not"));
  text.folder.write("train.en", "\na child.\na house.\n");
  CHECK(contains(text.message(), ", and line 1 is not"));
}

TEST_CASE("a file that is missing, or not named, is refused") {
  TextFolder text;
  text.options.test_source = "test.de";
  CHECK(text.message() == "data.test_target: found no file name");
  CHECK(hint_of([&] { text.load(); }) == "set both data.test_source and data.test_target");
  std::swap(text.options.test_source, text.options.test_target);
  CHECK(text.message() == "data.test_source: found no file name");
  text.options.test_source = "test.de";
  text.options.test_target = "test.en";
  CHECK(contains(text.message(), text.name("test.de") + ": cannot be read"));
  text.options.train_source.clear();
  CHECK(text.message() == "data.train_source: found no file name");
  text.options.train_source = "train.de";
  text.options.validation_target.clear();
  CHECK(text.message() == "data.validation_target: found no file name");
  CHECK(hint_of([&] { text.load(); }) ==
        "set both data.validation_source and data.validation_target");
}

TEST_CASE("a min_frequency that no word reaches is refused") {
  TextFolder text;
  text.words.min_frequency = 3;
  CHECK(text.message() == "vocabulary: no word occurs 3 times in the training text");
}

TEST_CASE("the files that were read are listed by key, with size and digest") {
  TextFolder text;
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

TEST_CASE("text is encoded with given vocabularies, in which other words are unknown") {
  TextFolder text;
  text.words.min_frequency = 3;  // which no word reaches
  const FixedVocabularies fixed = {Vocabulary({"Haus", "ein"}), Vocabulary({"a", "house"})};
  const Corpus corpus = load_parallel_text(text.options, text.words, text.folder.path(), &fixed);
  CHECK(corpus.source_vocabulary == fixed.source);
  CHECK(corpus.target_vocabulary == fixed.target);
  CHECK(corpus.train[0] == Example{{5, unk_id, unk_id}, {4, unk_id, unk_id}});
  CHECK(corpus.validation[0] == Example{{5, 4, unk_id}, {4, 5, unk_id}});
}

TEST_CASE("Windows files with byte order marks load like others") {
  TextFolder text;
  text.folder.write("train.de",
                    "\xEF\xBB\xBF"
                    "ein Hund .\r\nein Kind.\r\n");
  CHECK(text.load().train == TextFolder().load().train);
}

TEST_CASE("subwords are learned of both sides together or of each side separately") {
  TextFolder text;
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

TEST_CASE("given subword models are used, and no subword file is read") {
  TextFolder text;
  text.words.subwords = {.kind = SubwordKind::bpe, .vocabulary_size = 22};
  const Corpus first = text.load();
  const FixedVocabularies fixed = {first.source_vocabulary, first.target_vocabulary};
  text.words.subwords.kind = SubwordKind::file;
  text.words.subwords.file = "missing.model";
  const Corpus again = load_parallel_text(text.options, text.words, text.folder.path(), &fixed);
  CHECK(again.train == first.train);
  CHECK(fingerprint(again) == fingerprint(first));
  CHECK(again.source_vocabulary == first.source_vocabulary);
}

TEST_CASE("max_tokens counts subwords, and subwords are learned of long pairs too") {
  TextFolder text;
  text.folder.write("train.de", "ein Hund .\nein Hund.\nein.\n");
  text.folder.write("train.en", "a dog .\na dog.\na child , and a dog\n");
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

TEST_CASE("the fingerprint depends on the subword model even if all examples are equal") {
  TextFolder text;
  text.words.subwords = {.kind = SubwordKind::bpe, .vocabulary_size = 22};
  Corpus corpus = text.load();
  const std::uint64_t before = fingerprint(corpus);
  corpus.source_vocabulary = Vocabulary::from_text(corpus.source_vocabulary.to_text());
  CHECK(fingerprint(corpus) != before);
}
