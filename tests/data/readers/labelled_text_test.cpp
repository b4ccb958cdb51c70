#include "data/readers/labelled_text.h"

#include <doctest/doctest.h>

#include "data/text/tokenizer.h"
#include "tests/data/readers/text_folder.h"

using namespace tapestry;
using tapestry::test::refusal;

namespace {

/// A file with three labelled sentences.
struct LabelFolder : test::TextFolder<load_labelled_text> {
  LabelFolder() : TextFolder("good\tA fine day.\nbad\tA day.\n\ngood\tfine\n") {}
};

}  // namespace

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

TEST_CASE("classes that are whole numbers are ordered as numbers") {
  const LabelFolder text;
  text.write("10\ta\n9\ta\n-1\ta\n");
  CHECK(text.load().target_vocabulary == Vocabulary({"-1", "9", "10"}));
}

TEST_CASE("labels of a single line are noted if labels have ten lines on average") {
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

TEST_CASE("a sentence may have further tabs, which are white space, and other options apply") {
  LabelFolder text;
  text.words.lowercase = true;
  text.words.min_frequency = 2;
  text.write("x\tAh\tah \t oh\r\ny\tUh\r\n");
  const Corpus corpus = text.load();
  CHECK(corpus.source_vocabulary == Vocabulary({"ah"}));
  CHECK(corpus.train[0].source == std::vector<std::int32_t>{bos_id, 4, 4, unk_id});
}

TEST_CASE("held-out sentences have the words and classes of training") {
  LabelFolder text;
  text.write("bad\tA bad day\n", "other.txt");
  text.files.validation_text = text.files.test_text = "other.txt";
  const Corpus corpus = text.load();
  REQUIRE(corpus.validation.size() == 1);
  CHECK(corpus.validation[0] == Example{{bos_id, 5, unk_id, 6}, {4}});
  CHECK(corpus.test == corpus.validation);
  REQUIRE(corpus.files.size() == 3);
  CHECK(corpus.files[0].key == "data.train_text");
  CHECK(corpus.files[1].key == "data.validation_text");
  CHECK(corpus.files[2].key == "data.test_text");
}

TEST_CASE("a vocabulary may be given, but classes are always those of the training file") {
  const FixedVocabularies fixed = {Vocabulary({"day", "night"}), std::nullopt};
  const Corpus corpus = LabelFolder().load(&fixed);
  CHECK(corpus.source_vocabulary == fixed.source);
  CHECK(corpus.target_vocabulary == Vocabulary({"bad", "good"}));
  CHECK(corpus.train[1].source == std::vector<std::int32_t>{bos_id, unk_id, 4, unk_id});
}

TEST_CASE("a line that is not a label, a tab and a sentence is refused with its line number") {
  const LabelFolder text;
  const std::string expected = ", expected a label, a tab and a sentence";
  CHECK(text.message("a\tb\n\ngood day\n") == "3: found no tab" + expected);
  CHECK(text.message("\tb\n") == "1: found no label before the tab" + expected);
  CHECK(text.message(" \tb\n") == "1: found no label before the tab" + expected);
  CHECK(text.message("a\t\n") == "1: found no sentence after the tab" + expected);
  CHECK(text.message("a\t \t\u00A0\n") == "1: found no sentence after the tab" + expected);
  CHECK(text.message("a b\tc\n") == "1: found the label \"a b\", which is not one word" + expected);
  CHECK(text.message(" a\tc\n") == "1: found the label \" a\", which is not one word" + expected);
  CHECK(text.message("a\vb\tc\n") ==
        "1: found the label \"a\\x0Bb\", which is not one word" + expected);
  CHECK(text.message("<eos>\tc\n") ==
        "1: found the label \"<eos>\", which is not one word" + expected);
  CHECK(text.message(std::string(100'000, 'x') + " y\tc\n") ==
        "1: found the label \"" + std::string(60, 'x') + "...\", which is not one word" + expected);
}

TEST_CASE("a file of blank lines, or with one class, is refused") {
  const LabelFolder text;
  CHECK(text.message("\n \t\n\u00A0\n") ==
        " found only blank lines, expected labels and sentences");
  CHECK(text.message("a\tb\na\tc\n") ==
        " every example has the label a, expected two or more classes");
}

TEST_CASE("a held-out label of sentences that training lacks is refused with its line") {
  LabelFolder text;
  text.write("\nfair\tA day\n", "other.txt");
  text.files.test_text = "other.txt";
  CHECK(refusal([&] { text.load(); }) ==
        text.name("other.txt") + ":2: found the label fair, expected one of the classes bad, good");
}

TEST_CASE("with given classes of sentences, another label is refused") {
  const FixedVocabularies more = {Vocabulary({"day"}), Vocabulary({"good", "bad", "fair"})};
  const Corpus corpus = LabelFolder().load(&more);
  CHECK(corpus.target_vocabulary == *more.target);
  CHECK(corpus.train.front().target == std::vector<std::int32_t>{more.target->id("good")});

  const LabelFolder text;
  const FixedVocabularies less = {Vocabulary({"day"}), Vocabulary({"good", "fair"})};
  CHECK(refusal([&] {
          text.load(&less);
        }).ends_with(": found the label bad, expected one of the classes good, fair"));
}

TEST_CASE("a min_frequency that no word of labelled text reaches is refused") {
  LabelFolder text;
  text.words.min_frequency = 4;
  CHECK(refusal([&] { text.load(); }) == "vocabulary: no word occurs 4 times in the training text");
}

TEST_CASE("sentences of labelled text may be subwords, labels remain whole") {
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
