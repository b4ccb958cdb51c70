#include "data/text/codec.h"

#include <doctest/doctest.h>

#include "data/readers/symbol_tasks.h"
#include "tests/data/refusal.h"

using namespace tapestry;

namespace {

using Ids = std::vector<std::int32_t>;

TextFormat words(bool lowercase) { return {.tokenizer = WordTokenizer(lowercase)}; }

}  // namespace

TEST_CASE("symbols of toy tasks are separated by spaces") {
  const TextCodec codec(TextFormat(), symbol_vocabulary(3), symbol_vocabulary(3));
  CHECK(codec.encode_source(" a  c b\n") == Ids{4, 6, 5});
  CHECK(codec.encode_source("a,b z") == Ids{unk_id, unk_id});
  CHECK(codec.decode_target(Ids{bos_id, 6, 4, eos_id, 5, pad_id}) == "c a");
}

TEST_CASE("text is split into words and punctuation and joined again") {
  const TextCodec codec(words(false), Vocabulary({"Äpfel", "."}), Vocabulary({"apples", "."}));
  CHECK(codec.encode_source("Äpfel.") == Ids{4, 5});
  CHECK(codec.encode_target("apples .") == Ids{4, 5});
  CHECK(codec.encode_target("Äpfel.") == Ids{unk_id, 5});
  CHECK(codec.decode_source(Ids{4, 5}) == "Äpfel.");
  CHECK(codec.decode_target(Ids{4, 5, eos_id}) == "apples.");
}

TEST_CASE("a codec lowercases text if the corpus was lowercased") {
  const Vocabulary vocabulary({"äpfel"});
  CHECK(TextCodec(words(true), vocabulary, vocabulary).encode_source("ÄPFEL") == Ids{4});
  CHECK(TextCodec(words(false), vocabulary, vocabulary).encode_source("ÄPFEL") == Ids{unk_id});
}

TEST_CASE("a blank line has no ids") {
  const TextCodec codec(words(false), Vocabulary(), Vocabulary());
  CHECK(codec.encode_source("").empty());
  CHECK(codec.encode_source(" \t").empty());
  CHECK(codec.decode_target({}).empty());
}

TEST_CASE("text by characters is one sequence over the ends of its lines") {
  const TextFormat format{.tokenizer = CharacterTokenizer(), .multiple_lines = true};
  const Vocabulary characters({"a", "<space>", "<newline>"});
  const TextCodec codec(format, characters, characters);
  CHECK(codec.encode_target("a a\n\na") == Ids{4, 5, 4, 6, 6, 4});
  CHECK(codec.decode_target(Ids{4, 6, 5, unk_id}) == "a\n \uFFFD");
  CHECK(codec.encode_target("z\t") == Ids{unk_id, unk_id});
}

TEST_CASE("text by words has the words of each of its lines") {
  const TextFormat format{.tokenizer = WordTokenizer(true), .multiple_lines = true};
  const Vocabulary vocabulary({"oh", ",", "<newline>"});
  const TextCodec codec(format, vocabulary, vocabulary);
  CHECK(codec.encode_target("Oh,\noh") == Ids{4, 5, 6, 4});
  CHECK(codec.decode_target(Ids{4, 5, 6, 4}) == "oh,\noh");
}

TEST_CASE("a codec returns its vocabularies") {
  const TextCodec codec(TextFormat(), Vocabulary({"a"}), Vocabulary({"b"}));
  CHECK(codec.source_vocabulary() == Vocabulary({"a"}));
  CHECK(codec.target_vocabulary() == Vocabulary({"b"}));
}

TEST_CASE("a line that is not UTF-8 is refused") {
  const TextCodec codec(words(false), Vocabulary(), Vocabulary());
  CHECK(tapestry::test::refusal([&] { codec.encode_source("\xFF"); }) ==
        "text: byte 1 (0xFF) is not UTF-8");
}

TEST_CASE("multiple_lines() is true if the text of a codec may have several lines") {
  const Vocabulary empty;
  CHECK_FALSE(TextCodec(TextFormat(), empty, empty).multiple_lines());
  CHECK(TextCodec({.multiple_lines = true}, empty, empty).multiple_lines());
}
