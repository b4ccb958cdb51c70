#include "data/text/vocabulary.h"

#include <doctest/doctest.h>

#include "tests/data/refusal.h"

using namespace tapestry;
using tapestry::test::refusal;

TEST_CASE("whole numbers as classes are sorted by value and come before words") {
  CHECK(class_names({"10", "cat", "9", "-1", "Ape", "10"}, "a.csv") ==
        Vocabulary({"-1", "9", "10", "Ape", "cat"}));
}

TEST_CASE("labels that spell one number differently are two classes") {
  CHECK(class_names({"2", "01", "1"}, "a.csv") == Vocabulary({"01", "1", "2"}));
}

TEST_CASE("a label that is not a whole number, or too large for one, is a word") {
  CHECK(class_names({"1.5", "2", "99999999999999999999", "+1"}, "a.csv") ==
        Vocabulary({"2", "+1", "1.5", "99999999999999999999"}));
}

TEST_CASE("fewer than two classes are refused, with an excerpt of the only one") {
  CHECK(refusal([] {
          class_names({"cat", "cat"}, "a.csv");
        }) == "a.csv: every example has the label cat, expected two or more classes");
  CHECK(refusal([] { class_names({std::string(100'000, 'x') + "\x1B"}, "a.csv"); }) ==
        "a.csv: every example has the label " + std::string(60, 'x') +
            "..., expected two or more classes");
}

TEST_CASE("class names are single words and no special symbols") {
  CHECK(can_be_class("cat"));
  CHECK(can_be_class("7"));
  CHECK(can_be_class("<b>"));
  for (const char* label : {"", " ", "a b", "a\tb", "a\vb", "a\nb", "a\rb", "a\fb", "<unk>",
                            "<pad>", "<bos>", "<eos>"}) {
    CAPTURE(label);
    CHECK_FALSE(can_be_class(label));
  }
}

TEST_CASE("a label has the id of its class; other labels are refused with the known classes") {
  const Vocabulary classes({"no", "yes"});
  CHECK(class_id(classes, "yes", "a.csv:7") == first_word_id + 1);
  CHECK(refusal([&] { class_id(classes, "maybe", "a.csv:7"); }) ==
        "a.csv:7: found the label maybe, expected one of the classes no, yes");
}

TEST_CASE("up to ten classes are listed, otherwise the first ten and their number") {
  std::vector<std::string> many;
  for (int i = 0; i < 10; ++i) many.push_back(std::to_string(i));
  CHECK(list_of_classes(Vocabulary(many)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9");
  many.push_back("10");
  CHECK(list_of_classes(Vocabulary(many)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... (11 in all)");
}
