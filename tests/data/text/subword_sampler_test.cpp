// SPDX-License-Identifier: BSD-3-Clause
#include "data/text/subword_sampler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "data/text/subwords.h"
#include "data/text/tokenizer.h"
#include "tests/data/rejection.h"
#include "tests/data/text/model_file.h"

using namespace tapestry;
using tapestry::test::contains;
using tapestry::test::model_of;
using tapestry::test::piece;
using tapestry::test::rejection;

namespace {

using Ids = std::vector<std::int32_t>;

const std::vector<std::string> sampled_sentences = {
    "the dog plays",   "the dogs play",       "a dog played with the cat", "the cat is playing",
    "cats and dogs",   "the player plays on", "a cat plays a game",        "games are played",
    "the dog is here", "here is the cat",     "a player and a game"};

Vocabulary trained(SubwordKind kind, bool byte_fallback = false) {
  const std::size_t bytes = byte_fallback ? 256 : 0;
  return Vocabulary(train_subwords(
      sampled_sentences,
      {.kind = kind, .vocabulary_size = 34 + bytes, .byte_fallback = byte_fallback}, "x"));
}

Ids encode(const Vocabulary& words, const std::string& text) {
  return words.encode(words.subwords()->split(text));
}

Ids draw(const SubwordSampler& sampler, const Ids& ids, std::uint64_t index) {
  RandomDraws random(1, DrawPurpose::subword_segmentation, index);
  return sampler(ids, random);
}

std::string decode_text(const Vocabulary& words, const Ids& ids) {
  return words.subwords()->join(words.decode(ids));
}

/// Shares of the segmentations in many draws; tokens are joined with '|'.
std::map<std::string, double> shares(const Vocabulary& words, const SubwordSampling& sampling,
                                     const std::string& text) {
  const SubwordSampler sampler(words, sampling);
  const Ids ids = encode(words, text);
  std::map<std::string, double> found;
  constexpr int draws = 40'000;
  for (int i = 0; i < draws; ++i) {
    std::string segmentation;
    for (const std::int32_t id : draw(sampler, ids, static_cast<std::uint64_t>(i))) {
      segmentation += (segmentation.empty() ? "" : "|") + words.token(id);
    }
    found[segmentation] += 1.0 / draws;
  }
  return found;
}

/// A model of these pieces and scores, without a space before the text.
Vocabulary model(const std::vector<std::pair<std::string, float>>& pieces, char kind) {
  std::string content = piece("<unk>", 2);
  for (const auto& [text, score] : pieces) content += piece(text, 1, score);
  return Vocabulary(
      std::make_shared<const SubwordModel>(model_of(content, kind, /*prefix=*/false)));
}

}  // namespace

TEST_CASE("sampled segmentations vary and decode to the same text") {
  for (const bool bytes : {false, true}) {
    const Vocabulary unigram = trained(SubwordKind::unigram, bytes);
    const Vocabulary bpe = trained(SubwordKind::bpe, bytes);
    const SubwordSampler sampled(unigram, {.alpha = 0.2}), dropped(bpe, {.dropout = 0.3});
    std::map<Ids, int> different;
    for (const std::string& sentence : sampled_sentences) {
      for (std::uint64_t i = 0; i < 20; ++i) {
        const Ids a = draw(sampled, encode(unigram, sentence), i);
        const Ids b = draw(dropped, encode(bpe, sentence), i);
        CHECK(decode_text(unigram, a) == sentence);
        CHECK(decode_text(bpe, b) == sentence);
        ++different[a];
        ++different[b];
      }
    }
    CHECK(different.size() > 200);
  }
}

TEST_CASE("without dropout, or with a large alpha, the segmentation equals that of SentencePiece") {
  const Vocabulary unigram = trained(SubwordKind::unigram), bpe = trained(SubwordKind::bpe);
  const SubwordSampler sharp(unigram, {.alpha = 1000}), whole(bpe, {});
  for (const std::string text :
       {"the dogs played here", "a", "catsanddogs", "pla \u2603 ying", "gamesgamesgames  a  b",
        "\u2603\u2603", "hgfedcba theretheredogthe"}) {
    CAPTURE(text);
    CHECK(draw(sharp, encode(unigram, text), 0) == encode(unigram, text));
    CHECK(draw(whole, encode(bpe, text), 0) == encode(bpe, text));
  }
}

TEST_CASE("a sampled segmentation depends only on the random numbers") {
  const Vocabulary unigram = trained(SubwordKind::unigram);
  const SubwordSampler sampler(unigram, {.alpha = 0.2}), again(unigram, {.alpha = 0.2});
  const Ids ids = encode(unigram, "the dogs played here");
  const Ids first = draw(sampler, ids, 7);
  draw(sampler, ids, 8);
  CHECK(draw(sampler, ids, 7) == first);
  CHECK(draw(again, ids, 7) == first);
}

TEST_CASE("unigram segmentations have probabilities proportional to P(x)^alpha") {
  // P(ab) = 0.2, P(a) P(b) = 0.5 * 0.3 = 0.15.
  const Vocabulary words =
      model({{"a", std::log(0.5F)}, {"b", std::log(0.3F)}, {"ab", std::log(0.2F)}}, 1);
  for (const double alpha : {0.5, 1.0, 3.0}) {
    CAPTURE(alpha);
    const double joined = std::pow(0.2, alpha), apart = std::pow(0.15, alpha);
    auto found = shares(words, {.alpha = alpha}, "ab");
    CHECK(found["ab"] == doctest::Approx(joined / (joined + apart)).epsilon(0.03));
    CHECK(found.size() == 2);
    found = shares(words, {.alpha = alpha}, "aab");
    CHECK(found["a|ab"] == doctest::Approx(joined / (joined + apart)).epsilon(0.03));
    CHECK(found["a|a|b"] == doctest::Approx(apart / (joined + apart)).epsilon(0.03));
  }
}

TEST_CASE("BPE dropout skips each merge with the given probability at each step") {
  // Merges in order: ab, then abc; bc is never the best.
  const Vocabulary words =
      model({{"abc", -1.0F}, {"ab", 0.0F}, {"bc", -2.0F}, {"a", -3}, {"b", -4}, {"c", -5}}, 2);
  const double p = 0.4;
  auto found = shares(words, {.dropout = p}, "ab");
  CHECK(found["a|b"] == doctest::Approx(p).epsilon(0.03));
  CHECK(found["ab"] == doctest::Approx(1 - p).epsilon(0.03));
  // In a b c, the first merge is ab with probability 1 - p and bc with probability p (1 - p). The
  // second merge, to abc, has probability 1 - p.
  found = shares(words, {.dropout = p}, "abc");
  CHECK(found["a|b|c"] == doctest::Approx(p * p).epsilon(0.03));
  CHECK(found["ab|c"] == doctest::Approx((1 - p) * p).epsilon(0.03));
  CHECK(found["a|bc"] == doctest::Approx(p * (1 - p) * p).epsilon(0.04));
  CHECK(found["abc"] == doctest::Approx((1 - p) * (1 - p) + p * (1 - p) * (1 - p)).epsilon(0.03));
}

TEST_CASE("sampling does not change special symbols, bytes and unknown characters") {
  const Vocabulary words = trained(SubwordKind::unigram, true);
  const SubwordSampler sampler(words, {.alpha = 0.1});
  Ids ids = encode(words, "the dog \u2603 played");
  ids.insert(ids.begin(), bos_id);
  ids.insert(ids.begin() + 3, unk_id);
  ids.push_back(eos_id);
  const auto fixed = [&](const Ids& all) {
    Ids kept;
    for (const std::int32_t id : all) {
      if (id < first_word_id || words.token(id).starts_with("<0x")) kept.push_back(id);
    }
    return kept;
  };
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Ids drawn = draw(sampler, ids, i);
    CHECK(fixed(drawn) == fixed(ids));
    CHECK(drawn.front() == bos_id);
    CHECK(drawn.back() == eos_id);
    CHECK(decode_text(words, drawn) == decode_text(words, ids));
  }
  CHECK(draw(sampler, {}, 0).empty());
  const Vocabulary lines(words.subwords(), {"<newline>"});
  const std::int32_t newline = lines.id("<newline>");
  CHECK(draw(SubwordSampler(lines, {.alpha = 0.1}), {newline, newline}, 0) ==
        Ids{newline, newline});
}

TEST_CASE("sampling a long sentence is fast and does not underflow") {
  const Vocabulary words = trained(SubwordKind::unigram);
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "the player plays ";
  const Ids drawn = draw(SubwordSampler(words, {.alpha = 1.0}), encode(words, text), 1);
  text.pop_back();
  CHECK(decode_text(words, drawn) == text);
}

TEST_CASE("a word with a character that has no piece keeps its segmentation under dropout") {
  const Vocabulary words = model({{"ab", 0.0F}, {"b", -1.0F}}, 2);
  const SubwordSampler sampler(words, {.dropout = 0.9});
  for (std::uint64_t i = 0; i < 20; ++i) CHECK(draw(sampler, {4, 5}, i) == Ids{4, 5});
}

TEST_CASE("pieces that contain several words are merged across spaces") {
  const Vocabulary words =
      model({{"a\u2581b", 2.0F}, {"\u2581b", 3.0F}, {"a", 0.0F}, {"b", 0.0F}, {"\u2581", 0.0F}}, 2);
  CHECK(draw(SubwordSampler(words, {}), encode(words, "a b a"), 0) == encode(words, "a b a"));
  CHECK(words.token(encode(words, "a b").front()) == "a\u2581b");
}

TEST_CASE("alpha is rejected for BPE models, and dropout is rejected for unigram models") {
  CHECK(contains(rejection([] { SubwordSampler(trained(SubwordKind::bpe), {.alpha = 0.5}); }),
                 "data.subword_alpha: found a BPE model"));
  CHECK(contains(rejection([] { SubwordSampler(trained(SubwordKind::unigram), {.dropout = 0.5}); }),
                 "data.subword_dropout: found a unigram model"));
}
