#include "data/readers/labelled_text.h"

#include <doctest/doctest.h>

#include "tests/data/readers/text_folder.h"

using namespace tapestry;
using tapestry::test::refusal;

namespace {

/// A file with two tagged sentences.
struct TagFolder : test::TextFolder<load_tagged_text> {
  TagFolder() : TextFolder("Ada\tB-PER\nlives\tO\n\nin\tO\nNew\tB-LOC\nYork\tI-LOC\n") {}
};

}  // namespace

TEST_CASE("lines of a token and a label form a sentence up to the next empty line") {
  const Corpus corpus = TagFolder().load();
  CHECK(corpus.source_vocabulary == Vocabulary({"Ada", "New", "York", "in", "lives"}));
  CHECK(corpus.target_vocabulary == Vocabulary({"B-LOC", "B-PER", "I-LOC", "O"}));
  REQUIRE(corpus.train.size() == 2);
  CHECK(corpus.train[0] == Example{{4, 8}, {5, 7}});
  CHECK(corpus.train[1] == Example{{7, 5, 6}, {7, 4, 6}});
  CHECK(corpus.validation.empty());
  CHECK(corpus.test.empty());
  REQUIRE(corpus.files.size() == 1);
  CHECK(corpus.files[0].key == "data.train_text");
}

TEST_CASE("several empty lines before, between and after sentences count as one") {
  const TagFolder tags;
  tags.write("\n\nAda\tB-PER\n\n \n\nlives\tO\n\n\n");
  const Corpus corpus = tags.load();
  REQUIRE(corpus.train.size() == 2);
  CHECK(corpus.train[0].source.size() == 1);
  CHECK(corpus.train[1].source.size() == 1);
}

TEST_CASE("rare words are unknown, and case is kept") {
  TagFolder tags;
  tags.write("a\tO\na\tX\nA\tO\n\nb\tO\n");
  tags.words = {.lowercase = true, .min_frequency = 2};
  const Corpus corpus = tags.load();
  CHECK(corpus.source_vocabulary == Vocabulary({"a"}));
  CHECK(corpus.train[0].source == std::vector<std::int32_t>{4, 4, unk_id});
}

TEST_CASE("held-out sentences have the words and labels of the training file") {
  TagFolder tags;
  tags.write("York\tO\nParis\tB-LOC\n", "other.txt");
  tags.files.validation_text = tags.files.test_text = "other.txt";
  const Corpus corpus = tags.load();
  REQUIRE(corpus.validation.size() == 1);
  CHECK(corpus.validation[0] == Example{{6, unk_id}, {7, 4}});
  CHECK(corpus.test == corpus.validation);
  CHECK(corpus.files.size() == 3);
  CHECK(corpus.files[1].key == "data.validation_text");
  CHECK(corpus.files[2].key == "data.test_text");
  tags.write("York\tI-PER\n", "other.txt");
  CHECK(refusal([&] {
          tags.load();
        }).starts_with(tags.name("other.txt") + ":1: found the label I-PER"));
}

TEST_CASE("the vocabularies of a trained model are used") {
  const TagFolder tags;
  const FixedVocabularies fixed{Vocabulary({"York"}), Vocabulary({"O", "B-PER", "B-LOC", "I-LOC"})};
  const Corpus corpus = tags.load(&fixed);
  CHECK(corpus.source_vocabulary == fixed.source);
  CHECK(corpus.target_vocabulary == *fixed.target);
  CHECK(corpus.train[1] == Example{{unk_id, unk_id, 4}, {4, 6, 7}});
}

TEST_CASE("a line that is not a token and a label is refused with its number") {
  const TagFolder tags;
  const std::string rest = ", expected a token, a tab and a label";
  CHECK(tags.message("Ada\tO\nlives\n") == "2: found no tab" + rest);
  CHECK(tags.message("Ada\tNNP\tO\n") == "1: found 2 tabs" + rest);
  CHECK(tags.message("\n\tO\n") == "2: found the token \"\", which is not one word" + rest);
  CHECK(tags.message("New York\tO\n") ==
        "1: found the token \"New York\", which is not one word" + rest);
  CHECK(tags.message("Ada\t\n") == "1: found the label \"\", which is not one word" + rest);
  CHECK(tags.message("Ada\tB PER\n") ==
        "1: found the label \"B PER\", which is not one word" + rest);
}

TEST_CASE("a file without sentences, or with only one label, is refused") {
  const TagFolder tags;
  CHECK(tags.message("\n \n") == " found only blank lines, expected tokens and labels");
  CHECK(tags.message("Ada\tO\nlives\tO\n").find("O") != std::string::npos);
}
