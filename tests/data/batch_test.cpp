// SPDX-License-Identifier: BSD-3-Clause
#include "data/batch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

#include "data/io/file.h"

using namespace tapestry;

namespace {

using Ids = std::vector<std::int32_t>;
using Sizes = std::vector<std::size_t>;

const std::vector<Example> pairs = {
    {{4, 5}, {6, 7, 8}},
    {{9}, {9}},
    {{4, 4, 4}, {}},
};

}  // namespace

TEST_CASE(
    "pairs are padded to the longest pair, with <bos> before the input and <eos> after the "
    "labels") {
  const Batch batch = make_batch(pairs, Sizes{1, 0});
  CHECK(batch.rows == 2);
  CHECK(batch.source_length == 3);
  CHECK(batch.target_length == 4);
  CHECK(batch.source == Ids{9, eos_id, pad_id,  //
                            4, 5, eos_id});
  CHECK(batch.input == Ids{bos_id, 9, pad_id, pad_id,  //
                           bos_id, 6, 7, 8});
  CHECK(batch.labels == Ids{9, eos_id, no_label, no_label,  //
                            6, 7, 8, eos_id});
  CHECK(batch.source_lengths == Sizes{2, 3});
  CHECK(batch.target_lengths == Sizes{2, 4});
  CHECK(batch.target_tokens == 6);
  CHECK(batch.examples == Sizes{1, 0});
  const Batch empty_target = make_batch(pairs, Sizes{2, 2});  // contains the same pair twice
  CHECK(empty_target.source == Ids{4, 4, 4, eos_id, 4, 4, 4, eos_id});
  CHECK(empty_target.input == Ids{bos_id, bos_id});
  CHECK(empty_target.labels == Ids{eos_id, eos_id});
  CHECK(empty_target.target_tokens == 2);
}

TEST_CASE("for language models, the input is a window, and the labels are shifted by one token") {
  const std::vector<Example> windows = {{.target = {5, 6, 7, 8}}, {.target = {8, 9}}};
  const Batch batch = make_batch(windows, Sizes{0, 1}, {.layout = window_rows});
  CHECK(batch.target_length == 3);
  CHECK(batch.input == Ids{5, 6, 7,  //
                           8, pad_id, pad_id});
  CHECK(batch.labels == Ids{6, 7, 8,  //
                            9, no_label, no_label});
  CHECK(batch.target_lengths == Sizes{3, 1});
  CHECK(batch.target_tokens == 4);
  CHECK(batch.source_length == 0);
  CHECK(batch.source.empty());
  CHECK(batch.source_lengths == Sizes{0, 0});
  CHECK(batch.pixels.empty());
}

TEST_CASE("masked sentences are padded, and masks depend on the example, not on the row") {
  const std::vector<Example> sentences = {{.target = {bos_id, 4, 5, 6, 7, eos_id}},
                                          {.target = {bos_id, 8, eos_id}}};
  const BatchRules rules = {.layout = masked_rows, .vocabulary = 9, .seed = 3};
  const Batch batch = make_batch(sentences, Sizes{1, 0}, rules);
  CHECK(batch.target_length == 6);
  CHECK(batch.target_lengths == Sizes{3, 6});
  CHECK(batch.source.empty());
  // The only word of the first row is selected: its label is set, regardless of the input.
  CHECK(Ids(batch.labels.begin(), batch.labels.begin() + 6) ==
        Ids{no_label, 8, no_label, no_label, no_label, no_label});
  CHECK(Ids(batch.input.begin() + 2, batch.input.begin() + 6) ==
        Ids{eos_id, pad_id, pad_id, pad_id});
  const Batch alone = make_batch(sentences, Sizes{0}, rules);
  CHECK(Ids(batch.labels.begin() + 6, batch.labels.end()) == alone.labels);
  CHECK(Ids(batch.input.begin() + 6, batch.input.end()) == alone.input);
  CHECK(batch.target_tokens == alone.target_tokens + 1);
}

TEST_CASE("unmasked sentences keep all tokens and have no labels") {
  const std::vector<Example> sentences = {{.target = {bos_id, 4, eos_id}}, {.target = {5}}};
  const Batch batch = make_batch(sentences, Sizes{0, 1}, {.layout = unmasked_rows});
  CHECK(batch.input == Ids{bos_id, 4, eos_id,  //
                           5, pad_id, pad_id});
  CHECK(batch.labels == Ids(6, no_label));
  CHECK(batch.target_lengths == Sizes{3, 1});
  CHECK(batch.target_tokens == 0);
  CHECK(batch.source.empty());
}

TEST_CASE("a labelled sentence ends with <eos>, and its label is the index of its class") {
  const std::vector<Example> examples = {{.source = {bos_id, 9, 8}, .target = {4}},
                                         {.source = {bos_id}, .target = {6}}};
  const Batch batch = make_batch(examples, Sizes{0, 1}, {.layout = class_rows});
  CHECK(batch.source == Ids{bos_id, 9, 8, eos_id,  //
                            bos_id, eos_id, pad_id, pad_id});
  CHECK(batch.source_lengths == Sizes{4, 2});
  CHECK(batch.labels == Ids{0, 2});
  CHECK(batch.target_length == 1);
  CHECK(batch.target_lengths == Sizes{1, 1});
  CHECK(batch.target_tokens == 2);
}

TEST_CASE("a batch of images has one row of pixels per image, and no tokens") {
  const std::vector<Example> images = {{.target = {5}, .pixels = {0.0F, 0.5F}},
                                       {.target = {4}, .pixels = {1.0F, 0.25F}}};
  Batch batch = make_batch(images, Sizes{1, 0, 1}, {.layout = class_rows});
  CHECK(batch.pixels == std::vector<float>{1.0F, 0.25F, 0.0F, 0.5F, 1.0F, 0.25F});
  CHECK(batch.labels == Ids{0, 1, 0});
  CHECK(batch.source_length == 0);
  CHECK(batch.source.empty());
  fill_batch(images, Sizes{0}, batch, {.layout = class_rows});
  CHECK(batch.pixels == std::vector<float>{0.0F, 0.5F});
  fill_batch(pairs, Sizes{0}, batch);
  CHECK(batch.pixels.empty());
}

TEST_CASE("longest_side() returns the length of the longer row of an example") {
  const Example pair = {{4, 5}, {6, 7, 8, 9}};
  CHECK(longest_side(pair, pair_rows) == 5);
  CHECK(longest_side(Example{{4, 5, 6, 7, 8}, {9}}, pair_rows) == 6);
  CHECK(longest_side(pair, window_rows) == 3);
  CHECK(longest_side(pair, masked_rows) == 4);
  CHECK(longest_side(Example{.source = {bos_id, 4, 5}, .target = {4}}, class_rows) == 4);
  CHECK(longest_side(Example{.target = {4}, .pixels = {0.0F, 0.5F, 1.0F}}, class_rows) == 1);
}

TEST_CASE(
    "fill_batch() makes the same batch as make_batch() and reuses the memory of a used batch") {
  Batch batch = make_batch(pairs, Sizes{0, 1, 2});
  const std::int32_t* memory = batch.source.data();
  fill_batch(pairs, Sizes{1, 0}, batch);
  CHECK(batch == make_batch(pairs, Sizes{1, 0}));
  CHECK(batch.source.data() == memory);
}

TEST_CASE("a batch without indices, or with indices out of range, is rejected") {
  CHECK_THROWS_AS(make_batch(pairs, {}), std::invalid_argument);
  CHECK_THROWS_AS(make_batch(pairs, Sizes{0, 3}), std::out_of_range);
}

TEST_CASE("the share of unknown tokens counts the words of both sides") {
  const std::vector<Example> some{{.source = {4, unk_id, 5}, .target = {6}},
                                  {.source = {7, 8}, .target = {unk_id, 9}}};
  CHECK(share_of_unknown_tokens(some, pair_rows) == 2.0 / 8);
  CHECK(share_of_unknown_tokens({}, pair_rows) == 0.0);
  const std::vector<Example> labelled{{.source = {bos_id, unk_id, 5}, .target = {4}}};
  CHECK(share_of_unknown_tokens(labelled, class_rows) == 0.5);
  const std::vector<Example> sentences{{.target = {bos_id, 4, unk_id, 4, 4, eos_id, pad_id}}};
  CHECK(share_of_unknown_tokens(sentences, window_rows) == 0.25);
  CHECK(share_of_unknown_tokens({{.target = {4}, .pixels = {0.5F}}}, class_rows) == 0.0);
}

TEST_CASE("count_tokens() counts the tokens of both sides, but not the labels of classifiers") {
  CHECK(count_tokens({{.source = {5, 6}, .target = {5}}, {.source = {5}}}, pair_rows) == 5 + 2);
  CHECK(count_tokens({{.source = {bos_id, 5}, .target = {4}}}, class_rows) == 3);
  CHECK(count_tokens({{.target = {4, 5, 6}}}, window_rows) == 2);
  CHECK(count_tokens({{.target = {4}, .pixels = {0.5F}}}, class_rows) == 0);
}

// ---- Masking

namespace {

struct Masked {
  Ids input, labels;

  friend bool operator==(const Masked&, const Masked&) = default;
};

BatchRules rules(std::size_t vocabulary = 1000, std::uint64_t seed = 1, std::uint64_t epoch = 0) {
  return {.layout = masked_rows, .vocabulary = vocabulary, .seed = seed, .epoch = epoch};
}

Masked mask(const Ids& tokens, std::size_t example, const BatchRules& by = rules()) {
  Masked masked = {Ids(tokens.size()), Ids(tokens.size())};
  mask_tokens(tokens, by, example, masked.input.data(), masked.labels.data());
  return masked;
}

/// A sentence of <bos>, `count` words and <eos>.
Ids sentence(std::size_t count) {
  Ids ids = {bos_id};
  for (std::size_t i = 0; i < count; ++i) ids.push_back(first_word_id + static_cast<int>(i));
  ids.push_back(eos_id);
  return ids;
}

/// Whether `count` is within five standard deviations of draws * share.
bool is_share(std::size_t count, std::size_t draws, double share) {
  const double mean = static_cast<double>(draws) * share;
  return std::abs(static_cast<double>(count) - mean) < 5.0 * std::sqrt(mean * (1.0 - share));
}

}  // namespace

TEST_CASE("masking selects 15 % of the words: 80 % are masked, 10 % replaced, 10 % kept") {
  const Ids tokens = sentence(500);
  std::size_t words = 0, chosen = 0, hidden = 0, replaced = 0;
  for (std::size_t example = 0; example < 400; ++example) {
    const Masked masked = mask(tokens, example);
    words += 500;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      CHECK((masked.labels[i] == no_label ? masked.input[i] : masked.labels[i]) == tokens[i]);
      if (masked.labels[i] == no_label) continue;
      ++chosen;
      hidden += masked.input[i] == unk_id;
      replaced += masked.input[i] != unk_id && masked.input[i] != tokens[i];
    }
  }
  CHECK(is_share(chosen, words, 0.15));
  CHECK(is_share(hidden, chosen, 0.80));
  // With probability 1 / 996, the random word is the original word.
  CHECK(is_share(replaced, chosen, 0.10 * 995 / 996));
}

TEST_CASE("masking replaces a word with any word of the vocabulary, never with a special symbol") {
  Ids drawn;
  for (std::size_t example = 0; example < 5000; ++example) {
    const Masked masked = mask({4}, example, rules(7));
    if (masked.input[0] != unk_id) drawn.push_back(masked.input[0]);
  }
  for (std::int32_t id = first_word_id; id < 7; ++id) CHECK(std::ranges::count(drawn, id) > 50);
  CHECK(std::ranges::all_of(drawn, [](std::int32_t id) { return id >= 4 && id < 7; }));
}

TEST_CASE("masking selects at least one word of every sentence, and never a special symbol") {
  const Ids tokens = {bos_id, unk_id, 9, 8, eos_id, pad_id};
  std::size_t first = 0, alone = 0;
  for (std::size_t example = 0; example < 2000; ++example) {
    const Masked masked = mask(tokens, example);
    CHECK(masked.labels[0] == no_label);
    CHECK(masked.labels[1] == no_label);
    CHECK(masked.labels[4] == no_label);
    CHECK(masked.labels[5] == no_label);
    const bool both = masked.labels[2] != no_label && masked.labels[3] != no_label;
    REQUIRE((masked.labels[2] != no_label || masked.labels[3] != no_label));
    first += !both && masked.labels[2] != no_label;
    alone += !both;
  }
  // If one of two words must be selected, both are equally likely.
  CHECK(is_share(first, alone, 0.5));
}

TEST_CASE("masking selects <unk> only in a sentence without other words") {
  CHECK(mask({bos_id, eos_id}, 0) == Masked{{bos_id, eos_id}, {no_label, no_label}});
  CHECK(mask({}, 0) == Masked{});
  const Masked masked = mask({bos_id, unk_id, unk_id, eos_id}, 0);
  CHECK(std::ranges::count(masked.labels, unk_id) >= 1);
  CHECK(masked.labels.front() == no_label);
  CHECK(masked.labels.back() == no_label);
}

TEST_CASE("masking depends only on seed, epoch and example") {
  const Ids tokens = sentence(60);
  CHECK(mask(tokens, 3) == mask(tokens, 3));
  CHECK(mask(tokens, 4) != mask(tokens, 3));
  std::set<Ids> different;
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    for (const std::uint64_t epoch : {0, 1, 2, 3}) {
      different.insert(mask(tokens, 3, rules(1000, seed, epoch)).labels);
    }
  }
  CHECK(different.size() == 16);
}

TEST_CASE("the positions that masking selects do not depend on the words") {
  Ids others = sentence(100);
  std::reverse(others.begin() + 1, others.end() - 1);
  const Ids a = mask(sentence(100), 3).labels, b = mask(others, 3).labels;
  for (std::size_t i = 0; i < a.size(); ++i) CHECK((a[i] == no_label) == (b[i] == no_label));
}

TEST_CASE("masks are the same in every version, so that runs can be resumed") {
  Xxh3 hash;
  for (const std::size_t example : {0, 1, 70'000}) {
    const Masked masked = mask(sentence(200), example, rules(1000, 7, 3));
    hash.add(masked.input.data(), masked.input.size() * sizeof(std::int32_t));
    hash.add(masked.labels.data(), masked.labels.size() * sizeof(std::int32_t));
  }
  CHECK(hash.value() == 13240793466648863824u);
}
