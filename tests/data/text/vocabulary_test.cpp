#include "data/text/vocabulary.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/data/refusal.h"

using namespace tapestry;
using tapestry::test::contains;
using tapestry::test::refusal;

TEST_CASE("an empty vocabulary has the four special symbols") {
  const Vocabulary vocabulary;
  CHECK(vocabulary.size() == 4);
  CHECK(vocabulary.token(pad_id) == "<pad>");
  CHECK(vocabulary.token(unk_id) == "<unk>");
  CHECK(vocabulary.token(bos_id) == "<bos>");
  CHECK(vocabulary.token(eos_id) == "<eos>");
}

TEST_CASE("words follow the special symbols in the order given") {
  const Vocabulary vocabulary({"the", "cat", "Äpfel"});
  CHECK(vocabulary.size() == 7);
  CHECK(vocabulary.id("the") == 4);
  CHECK(vocabulary.id("Äpfel") == 6);
  CHECK(vocabulary.token(5) == "cat");
  CHECK(vocabulary.id("dog") == unk_id);
  CHECK(vocabulary.id("") == unk_id);
}

TEST_CASE("text that spells a special symbol is an unknown word") {
  const Vocabulary vocabulary({"the"});
  CHECK(vocabulary.encode({"the", "<eos>", "<pad>", "<bos>", "<unk>"}) ==
        std::vector<std::int32_t>{4, 1, 1, 1, 1});
}

TEST_CASE("encode adds neither <bos> nor <eos>") {
  const Vocabulary vocabulary({"a", "b"});
  CHECK(vocabulary.encode({"b", "x", "a"}) == std::vector<std::int32_t>{5, 1, 4});
  CHECK(vocabulary.encode({}).empty());
}

TEST_CASE("decode stops at <eos> and skips <pad> and <bos>") {
  const Vocabulary vocabulary({"a", "b"});
  const std::vector<std::int32_t> ids = {bos_id, 4, pad_id, unk_id, 5, eos_id, 4};
  CHECK(vocabulary.decode(ids) == Tokens{"a", "<unk>", "b"});
  CHECK(vocabulary.decode({}).empty());
}

TEST_CASE("an id outside the vocabulary cannot be decoded") {
  const Vocabulary vocabulary({"a"});
  CHECK_THROWS_WITH_AS(vocabulary.token(5), "vocabulary: found id 5, expected 0 to 4",
                       std::out_of_range);
  CHECK_THROWS_AS(vocabulary.token(-1), std::out_of_range);
  CHECK_THROWS_AS(vocabulary.decode(std::vector<std::int32_t>{4, 99}), std::out_of_range);
}

TEST_CASE("the text form of a vocabulary has one token a line and is read back as an equal one") {
  const Vocabulary vocabulary({"the", "Äpfel", "."});
  CHECK(vocabulary.to_text() == "<pad>\n<unk>\n<bos>\n<eos>\nthe\nÄpfel\n.\n");
  CHECK(Vocabulary::from_text(vocabulary.to_text()) == vocabulary);
  CHECK(Vocabulary::from_text(Vocabulary().to_text()) == Vocabulary());
}

TEST_CASE("vocabularies with other words or another order differ") {
  CHECK(Vocabulary({"a", "b"}) == Vocabulary({"a", "b"}));
  CHECK_FALSE(Vocabulary({"a", "b"}) == Vocabulary({"b", "a"}));
  CHECK_FALSE(Vocabulary({"a", "b"}) == Vocabulary({"a"}));
}

TEST_CASE("reading a vocabulary refuses invalid lines and names them") {
  const std::string head = "<pad>\n<unk>\n<bos>\n<eos>\n";
  const auto message = [](const std::string& text) {
    return refusal([&] { Vocabulary::from_text(text); });
  };
  CHECK(message("") == "vocabulary: line 1: found nothing, expected <pad>");
  CHECK(message("<pad>\n<bos>\n") == "vocabulary: line 2: found '<bos>', expected <unk>");
  CHECK(message("<pad>\n<unk>\n<bos>\n") == "vocabulary: line 4: found nothing, expected <eos>");
  CHECK(message(head + "a\nb\na\n") == "vocabulary: line 7: found 'a', which line 5 has already");
  CHECK(contains(message(head + "a\n\nb\n"), "line 6: found an empty token"));
  CHECK(contains(message(head + "a\n<eos>\n"), "line 6: found the special symbol <eos> again"));
  CHECK(contains(message(head + "a b\n"), "line 5: found white space in the token 'a b'"));
  for (const char* space : {"\t", "\v", "\f", "\r"}) {
    CHECK(contains(message(head + "a" + space + "\n"), "line 5: found white space"));
  }
  CHECK(contains(message(head + "\xE4\n"), "line 5: found a token that is not UTF-8"));
  CHECK(contains(message(head + "a\nb"), "line 6: found the end of the text after 'b'"));
}

TEST_CASE("a vocabulary made of words is checked as strictly as one that is read") {
  CHECK(contains(refusal([] { Vocabulary({"a", "a"}); }), "line 6: found 'a'"));
  CHECK(contains(refusal([] { Vocabulary({""}); }), "line 5: found an empty token"));
  CHECK(contains(refusal([] { Vocabulary({"a", "b\nc"}); }), "line 6: found white space"));
  CHECK(contains(refusal([] { Vocabulary({"<pad>"}); }), "line 5: found the special symbol"));
}

TEST_CASE("a message about a token is short and has no control characters") {
  const std::string specials = "<pad>\n<unk>\n<bos>\n<eos>\n";
  const std::string token = "a\x1B[31m" + std::string(1'000'000, 'x');
  const std::string start = "'a\\x1B[31m" + std::string(54, 'x') + "...'";
  CHECK(refusal([&] {
          Vocabulary::from_text(specials + token);
        }).starts_with("vocabulary: line 5: found the end of the text after " + start + ", "));
  CHECK(refusal([&] { Vocabulary::from_text(specials + token + "\n" + token + "\n"); }) ==
        "vocabulary: line 6: found " + start + ", which line 5 has already");
  CHECK(refusal([&] { Vocabulary::from_text(token + "\n"); }) ==
        "vocabulary: line 1: found " + start + ", expected <pad>");
  CHECK(refusal([&] { Vocabulary::from_text("\xff\n"); }) ==
        "vocabulary: line 1: found '\\xFF', expected <pad>");
}

TEST_CASE("words are numbered by falling frequency, equally frequent ones by their bytes") {
  WordCounter counter;
  counter.add({"b", "c", "a", "Z", "ä"});
  counter.add({"c", "c", "b"});
  CHECK(counter.vocabulary() == Vocabulary({"c", "b", "Z", "a", "ä"}));
}

TEST_CASE("the order of the sentences does not change the vocabulary") {
  WordCounter forwards, backwards;
  const std::vector<Tokens> sentences = {{"x", "y"}, {"y", "z"}, {"w"}};
  for (auto s = sentences.begin(); s != sentences.end(); ++s) forwards.add(*s);
  for (auto s = sentences.rbegin(); s != sentences.rend(); ++s) backwards.add(*s);
  CHECK(forwards.vocabulary() == backwards.vocabulary());
}

TEST_CASE("words below min_frequency have no id") {
  WordCounter counter;
  counter.add({"a", "a", "a", "b", "b", "c"});
  CHECK(counter.vocabulary(2) == Vocabulary({"a", "b"}));
  CHECK(counter.vocabulary(3) == Vocabulary({"a"}));
  CHECK(counter.vocabulary(4) == Vocabulary());
}

TEST_CASE("only the most frequent words are kept, not counting special symbols") {
  WordCounter counter;
  counter.add({"a", "a", "a", "b", "b", "c"});
  CHECK(counter.vocabulary(1, 2) == Vocabulary({"a", "b"}));
  CHECK(counter.vocabulary(1, 3).size() == 7);
  CHECK(counter.vocabulary(1, 100).size() == 7);
}

TEST_CASE("tokens that spell a special symbol have no id of their own") {
  WordCounter counter;
  counter.add({"<unk>", "<eos>", "a"});
  CHECK(counter.vocabulary() == Vocabulary({"a"}));
}

TEST_CASE("a vocabulary of no sentences has the special symbols only") {
  CHECK(WordCounter().vocabulary() == Vocabulary());
}
