// SPDX-License-Identifier: BSD-3-Clause
#include "data/text/vocabulary.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/data/rejection.h"

using namespace tapestry;
using tapestry::test::check_rejected;
using Ids = std::vector<std::int32_t>;

TEST_CASE("words follow the special symbols in the order given") {
  const Vocabulary vocabulary({"the", "cat", "Äpfel"});
  CHECK(vocabulary.size() == 7);
  CHECK(vocabulary.to_text() == "<pad>\n<unk>\n<bos>\n<eos>\nthe\ncat\nÄpfel\n");
  CHECK(vocabulary.token(pad_id) == "<pad>");
  CHECK(vocabulary.token(unk_id) == "<unk>");
  CHECK(vocabulary.token(bos_id) == "<bos>");
  CHECK(vocabulary.token(eos_id) == "<eos>");
  CHECK(vocabulary.token(5) == "cat");
  CHECK(vocabulary.id("the") == 4);
  CHECK(vocabulary.id("Äpfel") == 6);
  CHECK(vocabulary.id("dog") == unk_id);
  CHECK(vocabulary.id("") == unk_id);
  CHECK(Vocabulary().size() == 4);
  for (const Vocabulary& each : {vocabulary, Vocabulary()}) {
    CHECK(Vocabulary::from_text(each.to_text()) == each);
  }
  CHECK_FALSE(Vocabulary({"a", "b"}) == Vocabulary({"b", "a"}));
  CHECK_FALSE(Vocabulary({"a", "b"}) == Vocabulary({"a"}));
}

TEST_CASE("text is encoded without <bos> and <eos>, and decoded up to <eos>") {
  const Vocabulary vocabulary({"a", "b"});
  CHECK(vocabulary.encode({"b", "x", "a"}) == Ids{5, 1, 4});
  CHECK(vocabulary.encode({}).empty());
  // Text that spells a special symbol is an unknown word.
  CHECK(vocabulary.encode({"a", "<eos>", "<pad>", "<bos>", "<unk>"}) == Ids{4, 1, 1, 1, 1});
  CHECK(vocabulary.decode(Ids{bos_id, 4, pad_id, unk_id, 5, eos_id, 4}) ==
        Tokens{"a", "<unk>", "b"});
  CHECK(vocabulary.decode({}).empty());
  CHECK_THROWS_AS(vocabulary.token(6), std::out_of_range);
  CHECK_THROWS_AS(vocabulary.token(-1), std::out_of_range);
  CHECK_THROWS_AS(vocabulary.decode(Ids{4, 99}), std::out_of_range);
}

TEST_CASE("invalid lines of a vocabulary are rejected with their numbers and short excerpts") {
  const std::string head = "<pad>\n<unk>\n<bos>\n<eos>\n";
  const std::string token = "a\x1B[31m" + std::string(1'000'000, 'x');
  const std::string start = "'a\\x1B[31m" + std::string(54, 'x') + "...'";
  std::vector<test::BadInput> texts{
      {"", {"line 1: found nothing, expected <pad>"}},
      {"<pad>\n<bos>\n", {"line 2: found '<bos>', expected <unk>"}},
      {"<pad>\n<unk>\n<bos>\n", {"line 4: found nothing, expected <eos>"}},
      {"\xff\n", {"line 1: found '\\xFF', expected <pad>"}},
      {token + "\n", {"line 1: found " + start}},
      {head + "a\nb\na\n", {"line 7: found 'a', which is already in line 5"}},
      {head + token + "\n" + token + "\n",
       {"line 6: found " + start + ", which is already in line 5"}},
      {head + "a\n\nb\n", {"line 6: found an empty token"}},
      {head + "a\n<eos>\n", {"line 6: found the special symbol <eos> again"}},
      {head + "a b\n", {"line 5: found white space in the token 'a b'"}},
      {head + "\xE4\n", {"line 5: found a token that is not UTF-8"}},
      {head + "a\nb", {"line 6: found the end of the text after 'b'"}},
      {head + token, {"line 5: found the end of the text after " + start}},
  };
  for (const std::string space : {"\t", "\v", "\f", "\r"}) {
    texts.push_back({head + "a" + space + "\n", {"line 5: found white space"}});
  }
  check_rejected(texts, [](const std::string& text) { Vocabulary::from_text(text); });
  check_rejected({{"a", {"line 6: found 'a'"}},
                  {"", {"line 6: found an empty token"}},
                  {"b\nc", {"line 6: found white space"}},
                  {"<pad>", {"line 6: found the special symbol"}}},
                 [](const std::string& word) {
                   Vocabulary({"a", word});
                 });
}

TEST_CASE("words are numbered by decreasing frequency, then by their bytes") {
  std::vector<Tokens> sentences{{"b", "c", "a", "Z", "ä", "<unk>"}, {"c", "c", "b", "<eos>"}};
  for (int order = 0; order < 2; ++order) {
    WordCounter counter;
    for (const Tokens& sentence : sentences) counter.add(sentence);
    CHECK(counter.vocabulary() == Vocabulary({"c", "b", "Z", "a", "ä"}));
    CHECK(counter.vocabulary(2) == Vocabulary({"c", "b"}));
    CHECK(counter.vocabulary(3) == Vocabulary({"c"}));
    CHECK(counter.vocabulary(4) == Vocabulary());
    CHECK(counter.vocabulary(1, 2) == Vocabulary({"c", "b"}));
    CHECK(counter.vocabulary(1, 5).size() == 9);
    CHECK(counter.vocabulary(1, 100).size() == 9);
    std::ranges::reverse(sentences);
  }
  CHECK(WordCounter().vocabulary() == Vocabulary());
}

// ---- Classes

TEST_CASE("class names are sorted: whole numbers by value, then words by their bytes") {
  CHECK(class_names({"10", "cat", "9", "-1", "Ape", "10"}, "a.csv") ==
        Vocabulary({"-1", "9", "10", "Ape", "cat"}));
  CHECK(class_names({"2", "01", "1"}, "a.csv") == Vocabulary({"01", "1", "2"}));
  CHECK(class_names({"1.5", "2", "99999999999999999999", "+1"}, "a.csv") ==
        Vocabulary({"2", "+1", "1.5", "99999999999999999999"}));
  check_rejected({{"cat", {"a.csv: every example has the label \"cat\"", "two or more classes"}},
                  {std::string(100'000, 'x') + "\x1B", {std::string(60, 'x') + "..."}}},
                 [](const std::string& label) {
                   class_names({label, label}, "a.csv");
                 });
}

TEST_CASE("class names are single words other than special symbols") {
  for (const char* label : {"cat", "7", "<b>"}) CHECK(can_be_class(label));
  for (const char* label : {"", " ", "a b", "a\tb", "a\vb", "a\nb", "a\rb", "a\fb", "<unk>",
                            "<pad>", "<bos>", "<eos>"}) {
    CAPTURE(label);
    CHECK_FALSE(can_be_class(label));
  }
}

TEST_CASE("a label has the id of its class; other labels are rejected with the known classes") {
  std::vector<std::string> names{"no", "yes"};
  CHECK(class_id(Vocabulary(names), "yes", "a.csv:7") == first_word_id + 1);
  const auto find = [&](const std::string& label) {
    class_id(Vocabulary(names), label, "a.csv:7");
  };
  check_rejected({{"maybe", {"a.csv:7: found the label \"maybe\"", "classes no, yes"}},
                  {"yes\u200B", {"(U+200B, which is invisible)", "classes no, yes"}}},
                 find);
  names = {"no", "yes\u00A0"};
  check_rejected({{"yes", {"the label \"yes\",", "(U+00A0, which is not ` `)"}}}, find);
  names = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  CHECK(list_of_classes(Vocabulary(names)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9");
  names.emplace_back("10");
  CHECK(list_of_classes(Vocabulary(names)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... (11 in all)");
}
