// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/labelled_text.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "data/text/tokenizer.h"
#include "tests/data/readers/text_folder.h"

using namespace tapestry;
using Ids = std::vector<std::int32_t>;

namespace {

/// A file with three labelled sentences.
struct LabelFolder : test::TextFolder<load_labelled_text> {
  LabelFolder() : TextFolder("good\tA fine day.\nbad\tA day.\n\ngood\tfine\n") {}
};

/// A file with two tagged sentences.
struct TagFolder : test::TextFolder<load_tagged_text> {
  TagFolder() : TextFolder("Ada\tB-PER\nlives\tO\n\nin\tO\nNew\tB-LOC\nYork\tI-LOC\n") {}
};

std::vector<std::string> keys(const Corpus& corpus) {
  std::vector<std::string> names;
  for (const DataFile& file : corpus.files) names.push_back(file.key);
  return names;
}

const std::vector<std::string> all_keys{"data.train_text", "data.validation_text",
                                        "data.test_text"};

}  // namespace

// ---- Labelled text

TEST_CASE("a label, a tab and a sentence become <bos>, the words and the class") {
  const Corpus corpus = LabelFolder().load();
  CHECK(corpus.source_vocabulary == Vocabulary({".", "A", "day", "fine"}));
  CHECK(corpus.target_vocabulary == Vocabulary({"bad", "good"}));
  REQUIRE(corpus.train.size() == 3);
  CHECK(corpus.train[0] == Example{{bos_id, 5, 7, 6, 4}, {5}});
  CHECK(corpus.train[1] == Example{{bos_id, 5, 6, 4}, {4}});
  CHECK(corpus.train[2] == Example{{bos_id, 7}, {5}});
  CHECK(corpus.validation.empty());
  CHECK(corpus.test.empty());
}

TEST_CASE("a label with a single line causes a warning if labels have ten lines on average") {
  const LabelFolder text;
  const auto notes = [&](std::size_t lines, const std::string& others) {
    std::string content = others;
    for (std::size_t i = 0; i < lines; ++i) content += "good\ta\nbad\ta\n";
    text.write(content);
    return text.load().notes;
  };
  CHECK(notes(15, "").empty());
  CHECK(notes(14, "godo\ta\n").empty());
  CHECK(notes(15, "godo\ta\n") ==
        std::vector<std::string>{"warning: 1 of 3 classes has a single training example: `godo`; "
                                 "check the spelling of labels"});
  CHECK(notes(90, "g1\ta\ng2\ta\ng3\ta\ng4\ta\ng5\ta\ng6\ta\n") ==
        std::vector<std::string>{
            "warning: 6 of 8 classes have a single training example: `g1`, `g2`, `g3`, `g4`, "
            "`g5`, ...; check the spelling of labels"});
}

TEST_CASE("labels that are probably mistakes cause a warning") {
  const LabelFolder text;
  const TagFolder tags;
  const auto notes = [](const auto& folder, const std::string& content) {
    folder.write(content);
    std::string all;
    for (const std::string& note : folder.load().notes) all += note + "\n";
    return all;
  };
  std::string numbered, tagged, swapped, heading = "token\tlabel\n\n";
  for (int i = 0; i < 40; ++i) {
    const std::string word = "w" + std::to_string(i);
    numbered += std::to_string(i) + "\tgood\t" + word + " and x" + word + "\n";
    tagged += word + (i % 2 == 0 ? "\tNOUN\n" : "\tVERB\n\n");
    swapped += (i % 2 == 0 ? "NOUN\t" : "VERB\t") + word + "\n\n";
  }
  const struct {
    std::string found, expected;
  } rows[] = {
      {notes(text, numbered), "40 of 40 classes have a single training example: `0`, `1`"},
      {notes(text, tagged), "40 different labels and 2 different words"},
      {notes(text, swapped), ""},
      {notes(tags, tagged), ""},
      {notes(tags, swapped), "40 different labels and 2 different words"},
      {notes(tags, heading + tagged), "1 of 3 classes has a single training example: `label`"},
      {notes(text, "good\ta b c\nGood\td e f\n"), "classes Good and good differ only in case"},
      {notes(text, "good\ta b c\ngood\u200B\td e f\n"), "(U+200B, which is invisible)"},
      {notes(text, "good\ta b c\ngood\u00A0\td e f\n"), "(U+00A0, which is not ` `)"},
      {notes(tags, "a\tB-X\nb\tB\u2212X\n"), "(U+2212, which is not `-`)"},
      {notes(text, "a\tb c d\nA\td e f\n"), ""},
      {notes(text, "good\ta b c\nbad\td e f\n"), ""},
  };
  for (const auto& row : rows) {
    CAPTURE(row.found);
    CHECK(row.found.empty() == row.expected.empty());
    CHECK(test::contains(row.found, row.expected));
  }
}

TEST_CASE("a sentence may contain tabs, which are white space, and word options apply") {
  LabelFolder text;
  text.words.lowercase = true;
  text.words.min_frequency = 2;
  text.write("x\tAh\tah \t oh\r\ny\tUh\r\n");
  const Corpus corpus = text.load();
  CHECK(corpus.source_vocabulary == Vocabulary({"ah"}));
  CHECK(corpus.train[0].source == std::vector<std::int32_t>{bos_id, 4, 4, unk_id});
}

TEST_CASE("held-out sentences are encoded with the words and classes of the training set") {
  LabelFolder text;
  text.write("bad\tA bad day\n", "other.txt");
  text.files.validation_text = text.files.test_text = "other.txt";
  const Corpus corpus = text.load();
  REQUIRE(corpus.validation.size() == 1);
  CHECK(corpus.validation[0] == Example{{bos_id, 5, unk_id, 6}, {4}});
  CHECK(corpus.test == corpus.validation);
  CHECK(keys(corpus) == all_keys);
  text.write("\nfair\tA day\n", "other.txt");
  text.check_rejected_now({"other.txt:2: found the label \"fair\"", "classes bad, good"});
}

TEST_CASE("a vocabulary and classes may be given, and labels must then be among the classes") {
  const LabelFolder text;
  FixedVocabularies fixed{Vocabulary({"day", "night"}), std::nullopt};
  Corpus corpus = text.load(&fixed);
  CHECK(corpus.source_vocabulary == fixed.source);
  CHECK(corpus.target_vocabulary == Vocabulary({"bad", "good"}));
  CHECK(corpus.train[1].source == Ids{bos_id, unk_id, 4, unk_id});
  fixed.target = Vocabulary({"good", "bad", "fair"});
  corpus = text.load(&fixed);
  CHECK(corpus.target_vocabulary == *fixed.target);
  CHECK(corpus.train.front().target == Ids{fixed.target->id("good")});
  fixed.target = Vocabulary({"good", "fair"});
  text.check_rejected_now({"train.txt:2: found the label \"bad\"", "classes good, fair"}, &fixed);
}

TEST_CASE("lines that are not a label, a tab and a sentence are rejected with their numbers") {
  LabelFolder text;
  const std::string expected = "expected a label, a tab and a sentence", word = "not one word";
  text.check_rejected_texts({
      {"a\tb\n\ngood day\n", {"3: found no tab", expected}},
      {"\tb\n", {"1: found no label before the tab", expected}},
      {" \tb\n", {"1: found no label before the tab"}},
      {"a\t\n", {"1: found no sentence after the tab"}},
      {"a\t \t\u00A0\n", {"1: found no sentence after the tab"}},
      {"a b\tc\n", {"1: found the label \"a b\"", word}},
      {" a\tc\n", {"1: found the label \" a\"", word}},
      {"a\vb\tc\n", {"1: found the label \"a\\x0Bb\"", word}},
      {"<eos>\tc\n", {"1: found the label \"<eos>\"", word}},
      {"a\u200B b\tc\n", {"1: found the label", "(U+200B, which is invisible)", word}},
      {std::string(100'000, 'x') + " y\tc\n", {"1: found", std::string(60, 'x') + "...\"", word}},
      {"\n \t\n\u00A0\n", {" found only blank lines"}},
      {"a\tb\na\tc\n", {" every example has the label \"a\"", "two or more classes"}},
      {"a\u2212\tb\n", {" every example has the label", "(U+2212, which is not `-`)"}},
  });
  text.words.min_frequency = 4;
  text.write("good\tA fine day.\nbad\tA day.\n");
  text.check_rejected_now({"no word occurs 4 times"});
}

TEST_CASE("sentences of labelled text may be divided into subwords, but labels are not") {
  LabelFolder text;
  text.write("good\tthe dog plays\nbad\tthe dogs play\ngood\tdogs and the dog\n");
  text.words.subwords = {.kind = SubwordKind::bpe, .vocabulary_size = 24};
  const Corpus corpus = text.load();
  CHECK(corpus.source_vocabulary.size() == 24);
  CHECK(corpus.target_vocabulary == Vocabulary({"bad", "good"}));
  const Tokenizer tokenizer = sentence_tokenizer(corpus.source_vocabulary, text.words);
  CHECK(corpus.train[1].source.front() == bos_id);
  CHECK(join(tokenizer, corpus.source_vocabulary.decode(corpus.train[1].source)) ==
        "the dogs play");
  const FixedVocabularies fixed = {corpus.source_vocabulary, std::nullopt};
  CHECK(text.load(&fixed).train == corpus.train);
}

// ---- Tagged text

TEST_CASE("lines of a token and a label form a sentence up to the next empty line") {
  const Corpus corpus = TagFolder().load();
  CHECK(corpus.source_vocabulary == Vocabulary({"Ada", "New", "York", "in", "lives"}));
  CHECK(corpus.target_vocabulary == Vocabulary({"B-LOC", "B-PER", "I-LOC", "O"}));
  REQUIRE(corpus.train.size() == 2);
  CHECK(corpus.train[0] == Example{{4, 8}, {5, 7}});
  CHECK(corpus.train[1] == Example{{7, 5, 6}, {7, 4, 6}});
  CHECK(corpus.validation.empty());
  CHECK(corpus.test.empty());
}

TEST_CASE(
    "several consecutive empty lines count as one empty line, even before and after all "
    "sentences") {
  const TagFolder tags;
  tags.write("\n\nAda\tB-PER\n\n \n\nlives\tO\n\n\n");
  const Corpus corpus = tags.load();
  REQUIRE(corpus.train.size() == 2);
  CHECK(corpus.train[0].source.size() == 1);
  CHECK(corpus.train[1].source.size() == 1);
}

TEST_CASE("rare words are unknown, and case is preserved") {
  TagFolder tags;
  tags.write("a\tO\na\tX\nA\tO\n\nb\tO\n");
  tags.words = {.lowercase = true, .min_frequency = 2};
  const Corpus corpus = tags.load();
  CHECK(corpus.source_vocabulary == Vocabulary({"a"}));
  CHECK(corpus.train[0].source == Ids{4, 4, unk_id});
}

TEST_CASE("held-out tagged sentences are encoded with the words and labels of the training file") {
  TagFolder tags;
  tags.write("York\tO\nParis\tB-LOC\n", "other.txt");
  tags.files.validation_text = tags.files.test_text = "other.txt";
  const Corpus corpus = tags.load();
  REQUIRE(corpus.validation.size() == 1);
  CHECK(corpus.validation[0] == Example{{6, unk_id}, {7, 4}});
  CHECK(corpus.test == corpus.validation);
  CHECK(keys(corpus) == all_keys);
  tags.write("York\tI-PER\n", "other.txt");
  tags.check_rejected_now({"other.txt:1: found the label \"I-PER\""});
}

TEST_CASE("the vocabularies of a trained model are used") {
  const TagFolder tags;
  const FixedVocabularies fixed{Vocabulary({"York"}), Vocabulary({"O", "B-PER", "B-LOC", "I-LOC"})};
  const Corpus corpus = tags.load(&fixed);
  CHECK(corpus.source_vocabulary == fixed.source);
  CHECK(corpus.target_vocabulary == *fixed.target);
  CHECK(corpus.train[1] == Example{{unk_id, unk_id, 4}, {4, 6, 7}});
}

TEST_CASE("lines that are not a token and a label are rejected with their numbers") {
  const std::string rest = "expected a token, a tab and a label", word = "not one word";
  TagFolder().check_rejected_texts({
      {"Ada\tO\nlives\n", {"2: found no tab", rest}},
      {"Ada\tNNP\tO\n", {"1: found 2 tabs", rest}},
      {"\n\tO\n", {"2: found the token \"\"", word}},
      {"Ada NNP I-NP O\n", {"1: found no tab", "sed 's/ /\\t/g' FILE | cut -f1,4"}},
      {"Ada O\n", {"1: found no tab", "sed 's/ /\\t/g' FILE"}},
      {"New York\tO\n", {"1: found the token \"New York\"", word}},
      {"Ada\t\n", {"1: found the label \"\"", word}},
      {"Ada\tB PER\n", {"1: found the label \"B PER\"", word}},
      {"Ada\tB\u2212 PER\n", {"1: found the label", "(U+2212, which is not `-`)", word}},
      {"New\u00A0 York\tO\n", {"1: found the token", "(U+00A0, which is not ` `)", word}},
      {"\n \n", {" found only blank lines"}},
      {"Ada\tO\nlives\tO\n", {" every example has the label \"O\""}},
  });
}
