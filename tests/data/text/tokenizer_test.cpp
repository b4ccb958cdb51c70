// SPDX-License-Identifier: BSD-3-Clause
#include "data/text/tokenizer.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "data/io/utf8.h"
#include "data/readers/symbol_tasks.h"
#include "tests/data/rejection.h"

using namespace tapestry;

TEST_CASE("the space tokenizer splits at any run of white space and joins with one space") {
  const SpaceTokenizer tokenizer;
  CHECK(tokenizer.split("  a b\t c\r\n") == Tokens{"a", "b", "c"});
  CHECK(tokenizer.split("s10") == Tokens{"s10"});
  CHECK(tokenizer.split(" \t ").empty());
  CHECK(tokenizer.split("").empty());
  CHECK(tokenizer.join({"a", "b", "c"}) == "a b c");
  CHECK(tokenizer.join({}).empty());
}

TEST_CASE("WordTokenizer separates words, numbers and punctuation marks") {
  const std::pair<const char*, Tokens> sentences[] = {
      {"", {}},
      {" \t\u00A0", {}},
      {"Two men, one dog.", {"Two", "men", ",", "one", "dog", "."}},
      {"(yes)!?", {"(", "yes", ")", "!", "?"}},
      {"\"a\" a/b", {"\"", "a", "\"", "a", "/", "b"}},
      {"„Äpfel“ – ¿qué?", {"„", "Äpfel", "“", "–", "¿", "qué", "?"}},
      // Apostrophes and hyphens are part of a token only inside words.
      {"don't l’eau well-known T-34", {"don't", "l’eau", "well-known", "T-34"}},
      {"a\u2010b a\u2011b 1'000", {"a\u2010b", "a\u2011b", "1'000"}},
      {"a\u2013b a_b 1/2 1;2", {"a", "\u2013", "b", "a", "_", "b", "1", "/", "2", "1", ";", "2"}},
      {"'tis dogs' -x x-", {"'", "tis", "dogs", "'", "-", "x", "x", "-"}},
      // Periods, commas and colons are part of a token only inside numbers.
      {"3.5 10,000 10:30", {"3.5", "10,000", "10:30"}},
      {"It is 3.", {"It", "is", "3", "."}},
      {".5 a.b 1,a", {".", "5", "a", ".", "b", "1", ",", "a"}},
      {"v.2 3.b a,1 1:c", {"v", ".", "2", "3", ".", "b", "a", ",", "1", "1", ":", "c"}},
      // A run of periods or hyphens is one token; other marks are separate tokens.
      {"well...", {"well", "..."}},
      {"a--b -- !!", {"a", "--", "b", "--", "!", "!"}},
      {"..--.", {"..", "--", "."}},
      {"a\u00A0b\u2003c\u3000d", {"a", "b", "c", "d"}},
      {"Übermäßig GROß 漢字 😀", {"Übermäßig", "GROß", "漢字", "😀"}},
  };
  for (const auto& [sentence, tokens] : sentences) CHECK(WordTokenizer().split(sentence) == tokens);
  CHECK(WordTokenizer(true).split("Übermäßig GROß.") == Tokens{"übermäßig", "groß", "."});
}

TEST_CASE("text that is not UTF-8 is rejected with the position of the byte") {
  const std::vector<test::BadInput> texts{{"ab\xE4z", {"byte 3 (0xE4) is not UTF-8"}},
                                          {"\xED\xA0\x80", {"byte 1 (0xED) is not UTF-8"}}};
  test::check_rejected(texts, [](const std::string& text) { WordTokenizer().split(text); });
  test::check_rejected(texts, [](const std::string& text) { CharacterTokenizer().split(text); });
  const TextCodec codec({.tokenizer = WordTokenizer()}, Vocabulary(), Vocabulary());
  test::check_rejected(texts, [&](const std::string& text) { codec.encode_source(text); });
}

TEST_CASE("joining attaches each mark to the word that it closes, opens or joins") {
  const WordTokenizer tokenizer;
  CHECK(tokenizer.join({"a", "/", "b", "-", "c"}) == "a/b - c");
  CHECK(tokenizer.join({"<unk>", "."}) == "<unk>.");
  CHECK(tokenizer.join({}).empty());
  for (const std::string mark :
       {".", ",", ";", ":", "!", "?", ")", "]", "}", "%", "...", "…", "»", "›", "”", "’"}) {
    CHECK(tokenizer.join({"a", mark, "b"}) == "a" + mark + " b");
  }
  for (const std::string mark : {"(", "[", "{", "$", "#", "@", "¿", "¡", "«", "‹", "‘", "‚", "„"}) {
    CHECK(tokenizer.join({"a", mark, "b"}) == "a " + mark + "b");
  }
  for (const std::string mark : {"-", "--", "–", "&", "*", "=", "<", ">", "|", "`"}) {
    CHECK(tokenizer.join({"a", mark, "b"}) == "a " + mark + " b");
  }
  // Straight quotation marks alternate between opening and closing in each sentence.
  const Tokens quoted = {"he", "said", "\"", "no", "'", "x", "'", "\"", "."};
  CHECK(tokenizer.join(quoted) == "he said \"no 'x'\".");
  CHECK(tokenizer.join({"an", "\"", "open"}) == "an \"open");
  CHECK(tokenizer.join(quoted) == "he said \"no 'x'\".");
  // A high quotation mark closes in German and opens in English.
  CHECK(tokenizer.join({"er", "sagt", "„", "ja", "“", ",", "“", "ja", "”"}) ==
        "er sagt „ja“, “ja”");
}

TEST_CASE("each character is a token, and white space and control characters have names") {
  const CharacterTokenizer tokenizer;
  CHECK(tokenizer.split("a b\tc") == Tokens{"a", "<space>", "b", "<U+0009>", "c"});
  CHECK(tokenizer.split("é漢😀") == Tokens{"é", "漢", "😀"});
  CHECK(tokenizer.split("\u00A0\u0085\u3000\x1B") ==
        Tokens{"<U+00A0>", "<U+0085>", "<U+3000>", "<U+001B>"});
  CHECK(tokenizer.split("<unk>") == Tokens{"<", "u", "n", "k", ">"});
  CHECK(tokenizer.split("").empty());
  CHECK(CharacterTokenizer(true).split("ÄB c") == Tokens{"ä", "b", "<space>", "c"});
  CHECK(tokenizer.split("ÄB") == Tokens{"Ä", "B"});
}

TEST_CASE("every character can be a token of a vocabulary and is decoded from it") {
  Tokens tokens;
  for (char32_t c = 1; c < 0x3100; ++c) {
    std::string character;
    append_utf8(character, c);
    const Tokens one = CharacterTokenizer().split(character);
    REQUIRE(one.size() == 1);
    CHECK(CharacterTokenizer().join(one) == character);
    tokens.push_back(one.front());
  }
  CHECK(Vocabulary(tokens).size() == tokens.size() + first_word_id);
}

TEST_CASE("a text of many lines is one sequence with a token for each line end") {
  const Tokenizer characters = CharacterTokenizer();
  const std::string end(newline_token);
  CHECK(split_lines(characters, "ab\n\nc") == Tokens{"a", "b", end, end, "c"});
  CHECK(split_lines(characters, "a\n") == Tokens{"a", end});
  CHECK(split_lines(characters, "").empty());
  CHECK(split_lines(WordTokenizer(), "Oh, no!\nYes.") ==
        Tokens{"Oh", ",", "no", "!", end, "Yes", "."});
  // Joining the lines gives the text.
  for (const char* text :
       {"", "\n", "a", "a\n", "\n\na  b\t\n c\u00A0d\n", "<newline>\n<U+0009>", "ÄÖ\n漢字 😀\r\n"}) {
    CAPTURE(text);
    CHECK(join(characters, split_lines(characters, text)) == text);
  }
  const Tokenizer words = WordTokenizer();
  for (const char* text : {"Oh, no!\nYes.", "\n\n", "\"a\" b\n\"c\"\n"}) {
    CAPTURE(text);
    CHECK(join(words, split_lines(words, text)) == text);
  }
}

TEST_CASE("joining characters does not change tokens that do not name a code point") {
  const CharacterTokenizer tokenizer;
  CHECK(tokenizer.join({"a", "<U+000A>", "<U+1F600>"}) == "a\n😀");
  CHECK(tokenizer.join({"a", "<unk>", "<space>", "b"}) == "a\uFFFD b");
  for (const char* token : {"<U+", "<U+>", "<U+0A", "<U+ZZ>", "<U+0A>b", "<U+D800>", "<U+110000>",
                            "<U+FFFFFFFFFFFFFFFFF>", "<U+-1>"}) {
    CAPTURE(token);
    CHECK(tokenizer.join({"a", token}) == "a" + std::string(token));
  }
}

TEST_CASE("joining the tokens of an ordinary sentence gives the sentence") {
  const WordTokenizer tokenizer;
  for (const char* sentence :
       {"Zwei junge weiße Männer sind im Freien.", "It's 3.5 km (well, 10,000 ft) away!",
        "\"Don't,\" she said: \"it is late...\"", "L’eau est-elle froide?", "«oui»"}) {
    CHECK(tokenizer.join(tokenizer.split(sentence)) == sentence);
  }
}

// ---- TextCodec

using Ids = std::vector<std::int32_t>;

TEST_CASE("symbols of toy tasks are separated by spaces") {
  const TextCodec codec(TextFormat(), symbol_vocabulary(3), symbol_vocabulary(3));
  CHECK(codec.encode_source(" a  c b\n") == Ids{4, 6, 5});
  CHECK(codec.encode_source("a,b z") == Ids{unk_id, unk_id});
  CHECK(codec.decode_target(Ids{bos_id, 6, 4, eos_id, 5, pad_id}) == "c a");
}

TEST_CASE("text is split into words and punctuation and joined again") {
  const TextCodec codec({.tokenizer = WordTokenizer()}, Vocabulary({"Äpfel", "."}),
                        Vocabulary({"apples", "."}));
  CHECK(codec.encode_source("Äpfel.") == Ids{4, 5});
  CHECK(codec.encode_target("apples .") == Ids{4, 5});
  CHECK(codec.encode_target("Äpfel.") == Ids{unk_id, 5});
  CHECK(codec.decode_source(Ids{4, 5}) == "Äpfel.");
  CHECK(codec.decode_target(Ids{4, 5, eos_id}) == "apples.");
  CHECK(codec.encode_source("").empty());
  CHECK(codec.encode_source(" \t").empty());
  CHECK(codec.decode_target({}).empty());
  CHECK(codec.source_vocabulary() == Vocabulary({"Äpfel", "."}));
  CHECK(codec.target_vocabulary() == Vocabulary({"apples", "."}));
  CHECK_FALSE(codec.multiple_lines());
}

TEST_CASE("a text of characters is one sequence across line ends") {
  const TextFormat format{.tokenizer = CharacterTokenizer(), .multiple_lines = true};
  const Vocabulary characters({"a", "<space>", "<newline>"});
  const TextCodec codec(format, characters, characters);
  CHECK(codec.encode_target("a a\n\na") == Ids{4, 5, 4, 6, 6, 4});
  CHECK(codec.decode_target(Ids{4, 6, 5, unk_id}) == "a\n \uFFFD");
  CHECK(codec.encode_target("z\t") == Ids{unk_id, unk_id});
  CHECK(codec.multiple_lines());
}
