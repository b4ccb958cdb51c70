// SPDX-License-Identifier: BSD-3-Clause
#include "data/text/subwords.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/io/random.h"
#include "data/readers/corpus_text.h"
#include "data/text/tokenizer.h"
#include "tests/data/rejection.h"
#include "tests/data/text/model_file.h"
#include "tests/support/temporary_folder.h"

using namespace tapestry;
using tapestry::test::check_rejected;
using tapestry::test::contains;
using tapestry::test::field;
using tapestry::test::hint_of;
using tapestry::test::model_of;
using tapestry::test::piece;
using tapestry::test::rejection;

namespace {

const std::vector<std::string> sentences = {
    "the dog plays",   "the dogs play",       "a dog played with the cat", "the cat is playing",
    "cats and dogs",   "the player plays on", "a cat plays a game",        "games are played",
    "the dog is here", "here is the cat",     "a player and a game"};

SubwordOptions options_of(SubwordKind kind, std::size_t size) {
  return {.kind = kind, .vocabulary_size = size};
}

std::shared_ptr<const SubwordModel> train(const SubwordOptions& options) {
  return train_subwords(sentences, options, "test.txt");
}

}  // namespace

TEST_CASE(
    "a subword vocabulary of either kind has the requested size, and its tokens decode to the "
    "text") {
  for (const SubwordKind kind : {SubwordKind::unigram, SubwordKind::bpe}) {
    CAPTURE(static_cast<int>(kind));
    const auto model = train(options_of(kind, 34));
    CHECK(Vocabulary(model).size() == 34);
    for (const std::string& sentence : sentences) {
      CHECK(model->join(model->split(sentence)) == sentence);
    }
    const Tokens tokens = model->split("the dogs");
    CHECK(tokens.size() < 8);
    CHECK(tokens.front().starts_with("\u2581"));
  }
}

TEST_CASE("subwords do not depend on the order of the sentences") {
  std::vector<std::string> reversed(sentences.rbegin(), sentences.rend());
  for (const SubwordKind kind : {SubwordKind::unigram, SubwordKind::bpe}) {
    CHECK(train_subwords(reversed, options_of(kind, 34), "x")->serialized() ==
          train(options_of(kind, 34))->serialized());
  }
  CHECK(train(options_of(SubwordKind::unigram, 34))->tokens() !=
        train(options_of(SubwordKind::bpe, 40))->tokens());
}

TEST_CASE("characters without a piece are <unk>, or bytes with byte fallback") {
  SubwordOptions options = options_of(SubwordKind::bpe, 40);
  CHECK(train(options)->split("dog \u2603") == Tokens{"\u2581dog", "\u2581", "<unk>"});
  CHECK(train(options)->join({"\u2581dog", "<unk>"}) == "dog \u2047 ");
  options.byte_fallback = true;
  options.vocabulary_size = 296;
  const auto model = train(options);
  const Tokens tokens = model->split("dog \u2603");
  CHECK(tokens == Tokens{"\u2581dog", "\u2581", "<0xE2>", "<0x98>", "<0x83>"});
  CHECK(model->join(tokens) == "dog \u2603");
  CHECK(model->join({"<0xE2>", "\u2581dog"}) == "\uFFFD dog");
  CHECK(model->split("<0xE2>").size() > 1);
}

TEST_CASE("each normalization of subwords changes text as documented") {
  const auto text = [&](TextNormalization normalization, std::string_view given) {
    SubwordOptions options = options_of(SubwordKind::bpe, 300);
    options.byte_fallback = true;
    options.normalization = normalization;
    const auto model = train(options);
    return model->join(model->split(given));
  };
  const std::string given = "\uFB01 A\u00A0b\tc";
  CHECK(text(TextNormalization::nmt_nfkc, given) == "fi A b c");
  CHECK(text(TextNormalization::nfkc, given) == "fi A b\tc");
  CHECK(text(TextNormalization::nmt_nfkc_cf, given) == "fi a b c");
  CHECK(text(TextNormalization::nfkc_cf, given) == "fi a b\tc");
  CHECK(text(TextNormalization::identity, given) == given);
}

TEST_CASE("rare characters have no piece if character_coverage excludes them") {
  std::vector<std::string> text(100, "abcde abcde abcde");
  text.emplace_back("z");
  SubwordOptions options = options_of(SubwordKind::bpe, 13);
  options.character_coverage = 0.99;
  CHECK(train_subwords(text, options, "x")->split("z") == Tokens{"\u2581", "<unk>"});
  options.character_coverage = 1.0;
  CHECK(train_subwords(text, options, "x")->split("z") == Tokens{"\u2581", "z"});
}

TEST_CASE("encoding unusual text as subwords and decoding it restores the text") {
  SubwordOptions options = options_of(SubwordKind::unigram, 290);
  options.byte_fallback = true;
  const auto model = train(options);
  const auto round_trip = [&](std::string_view text) { return model->join(model->split(text)); };
  for (const char* text : {"<pad> <unk> <bos> <eos>", "<newline>", "\U0001F600\u200D\U0001F680",
                           "\u0645\u0631\u062D\u0628\u0627 \u05E9\u05DC\u05D5\u05DD dog",
                           "\u4E2D\u6587 \u0939\u093F\u0928\u094D\u0926\u0940"}) {
    CHECK(round_trip(text) == text);
  }
  CHECK(round_trip("  two  spaces ") == "two spaces");
  CHECK(round_trip("a\u2581b") == "a b");
  CHECK(round_trip("a\x01z\r") == "az");
  CHECK(model->split("").empty());
  CHECK(model->split(" \t ").empty());
  std::string words;
  for (int i = 0; i < 10'000; ++i) words += i == 0 ? "dog" : " dog";
  CHECK(round_trip(words) == words);
}

TEST_CASE("an impossible vocabulary size is rejected with the nearest possible size") {
  for (const SubwordKind kind : {SubwordKind::unigram, SubwordKind::bpe}) {
    const std::string high = rejection([&] { train(options_of(kind, 5000)); });
    CHECK(high.starts_with("data.vocabulary_size: found 5000, expected at most "));
    const std::string hint = hint_of([&] { train(options_of(kind, 5000)); });
    const std::size_t most = std::stoul(hint.substr(hint.find(" to ") + 4));
    CHECK(Vocabulary(train(options_of(kind, most))).size() == most);

    CHECK(rejection([&] {
            train(options_of(kind, 10));
          }).starts_with("data.vocabulary_size: found 10, expected at least "));
    CHECK(contains(rejection([&] { train_subwords({}, options_of(kind, 34), "f.txt"); }),
                   "f.txt: found no text"));
  }
}

TEST_CASE("a damaged model file, or a file of a different kind, is rejected") {
  const std::string good = train(options_of(SubwordKind::unigram, 34))->serialized();
  CHECK(SubwordModel(good).serialized() == good);
  CHECK(contains(rejection([&] { SubwordModel(good.substr(0, good.size() / 2)); }),
                 "found the end of the data within a field"));

  RandomDraws random(1, DrawPurpose::training_example, 0);
  std::size_t loaded = 0;
  for (int i = 0; i < 300; ++i) {
    std::string damaged = good;
    const std::size_t end = i % 3 == 0 ? damaged.size() : 900;
    for (int k = 0; k < 2; ++k) damaged[random.below(end)] = static_cast<char>(random.below(256));
    try {
      const SubwordModel model(damaged);
      const Tokens tokens = model.split("the dogs \uFB01 \u3042\u00C5 play");
      CHECK(Vocabulary(tokens.empty() ? Tokens{} : Tokens{"x"}).size() > 0);
      model.join(tokens);
      ++loaded;
    } catch (const DataError& error) {
      CHECK(contains(error.what(), "subword model: "));
    }
  }
  CHECK(loaded > 0);
  CHECK(loaded < 300);
}

TEST_CASE("special symbols of a foreign model are left out, and invalid pieces are renamed") {
  const SubwordModel model(model_of(piece("<s>", 3) + piece("[UNK]", 2) + piece("a") +
                                    piece("\t", 4) + piece("<eos>", 4) + piece("b") +
                                    piece("c", 5) + piece("\u2581")));
  CHECK(model.tokens() == Tokens{"a", "<U+0009>", "<U+003C>eos>", "b", "\u2581"});
  const Tokens tokens = model.split("a\tb<eos>z");
  CHECK(tokens == Tokens{"\u2581", "a", "<U+0009>", "b", "<U+003C>eos>", "<unk>"});
  CHECK(model.join(tokens) == "a\tb<eos> \u2047 ");
}

TEST_CASE("malformed models that SentencePiece accepts are rejected") {
  const std::string unknown = piece("<unk>", 2);
  CHECK(SubwordModel(model_of(unknown + piece("a"))).tokens() == Tokens{"a"});
  const std::string longest(4096, 'a');
  CHECK(SubwordModel(model_of(unknown + piece(longest))).tokens() == Tokens{longest});
  // A trie of one unit whose children would be outside of the array
  const std::string map = std::string("\x04\0\0\0\0\x04\0\0x\0", 10);
  check_rejected(
      {
          {"", {"m: is not a SentencePiece model", "found no pieces"}},
          {"hello\n", {"is not a SentencePiece model"}},
          {model_of(unknown, 3), {"found a model of words, expected unigram or bpe"}},
          {model_of(unknown, 4), {"found a model of characters"}},
          {model_of(unknown + piece("")), {"found an empty piece"}},
          {model_of(unknown + piece(std::string(4097, 'a'))),
           {"found a piece of 4097 bytes, expected at most 4096"}},
          {model_of(unknown + piece(std::string(200'000, 'a'), 4)), {"a piece of 200000 bytes"}},
          {model_of(unknown + piece("\xFF")), {"found a piece that is not UTF-8"}},
          {model_of(unknown + piece(std::string("a\0b", 3))), {"contains NUL"}},
          {model_of(unknown + piece("a", 9)), {"found a piece of type 9"}},
          {model_of(unknown + field(1, field(1, "a") + std::string("\x15\0\0\xC0\x7F", 5))),
           {"found the score nan of the piece"}},
          {model_of(piece("a")), {"m: SentencePiece cannot load the model: "}},
          {model_of(unknown + piece("a") + piece("a")), {"SentencePiece cannot"}},
          {model_of(unknown) + field(3, ""), {"found field 3 twice"}},
          {unknown + field(3, field(2, map)), {"found a damaged normalization"}},
          {unknown + field(3, field(2, "abc")), {"normalization that is cut off"}},
      },
      [](const std::string& content) { SubwordModel(content, "m"); });
}

TEST_CASE("text is converted to lower case before it is divided into subwords") {
  const auto model = train(options_of(SubwordKind::bpe, 40));
  CHECK(SubwordTokenizer(model, true).split("The DOG") == model->split("the dog"));
  CHECK(SubwordTokenizer(model).split("The DOG") != model->split("the dog"));
  WordOptions words{.lowercase = true, .subwords = options_of(SubwordKind::bpe, 40)};
  TextSample capitals;
  for (std::string each : sentences) {
    each[0] = static_cast<char>(each[0] - 'a' + 'A');
    capitals.add(each);
  }
  std::vector<std::string> notes;
  CHECK(make_subwords(capitals, words, SubwordSide::source, ".", "x", notes)->serialized() ==
        model->serialized());
  CHECK(notes.empty());
}

TEST_CASE("subwords of a text larger than memory are learned from a sample, with a note") {
  const WordOptions words{.subwords = options_of(SubwordKind::bpe, 40)};
  TextSample sample(3000);
  for (int i = 0; i < 10; ++i) {
    for (const std::string& sentence : sentences) sample.add(sentence);
  }
  REQUIRE(sample.kept() > 30);
  REQUIRE(sample.kept() < 50);
  std::vector<std::string> notes;
  const auto model = make_subwords(sample, words, SubwordSide::source, ".", "x", notes);
  CHECK(notes == std::vector<std::string>{
                     fmt::format("subwords of x: learned from {} of {} sentences, drawn at random",
                                 sample.kept(), 10 * sentences.size())});
  CHECK(model->serialized() ==
        train_subwords(std::move(sample).take(), words.subwords, "x")->serialized());
}

TEST_CASE("each side reads subwords from a separate file") {
  const test::TemporaryFolder folder;
  folder.write("s.model", train(options_of(SubwordKind::bpe, 40))->serialized());
  folder.write("t.model", train(options_of(SubwordKind::unigram, 34))->serialized());
  WordOptions words{
      .subwords = {.kind = SubwordKind::file, .file = "s.model", .target_file = "t.model"}};
  const auto read = [&](SubwordSide side) {
    std::vector<std::string> notes;
    return make_subwords({}, words, side, folder.path(), "x", notes)->serialized();
  };
  CHECK(read(SubwordSide::source) == train(options_of(SubwordKind::bpe, 40))->serialized());
  CHECK(read(SubwordSide::target) == train(options_of(SubwordKind::unigram, 34))->serialized());
  words.subwords.target_file = "none.model";
  CHECK(contains(rejection([&] { read(SubwordSide::target); }), "none.model: "));
  CHECK(contains(hint_of([&] { read(SubwordSide::target); }), "data.target_subword_file"));
}

TEST_CASE("subword vocabularies are equal only if their models are equal") {
  const auto model = train(options_of(SubwordKind::bpe, 40));
  const Vocabulary words(model, {"<newline>"});
  CHECK(words.size() == 41);
  CHECK(words.id("<newline>") == 40);
  CHECK(words.encode(model->split("the zoo")).size() == model->split("the zoo").size());
  const Vocabulary plain = Vocabulary::from_text(words.to_text());
  CHECK_FALSE(plain == words);
  CHECK(Vocabulary::with_subwords(plain, model) == words);
  const auto copy = std::make_shared<const SubwordModel>(model->serialized());
  CHECK(Vocabulary(copy, {"<newline>"}) == words);
  const auto other = train(options_of(SubwordKind::unigram, 34));
  CHECK(contains(rejection([&] { Vocabulary::with_subwords(plain, other); }),
                 "the words differ from the tokens of its subword model"));
  CHECK_THROWS_AS(Vocabulary(std::shared_ptr<const SubwordModel>()), std::invalid_argument);
}
