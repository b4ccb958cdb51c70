#include "data/batch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "data/io/file.h"

using namespace tapestry;

namespace {

using Ids = std::vector<std::int32_t>;

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

/// <bos>, `count` words, <eos>.
Ids sentence(std::size_t count) {
  Ids ids = {bos_id};
  for (std::size_t i = 0; i < count; ++i) ids.push_back(first_word_id + static_cast<int>(i));
  ids.push_back(eos_id);
  return ids;
}

/// Whether `count` of `draws` is within five standard deviations of what `share` makes of them.
bool is_share(std::size_t count, std::size_t draws, double share) {
  const double mean = static_cast<double>(draws) * share;
  return std::abs(static_cast<double>(count) - mean) < 5.0 * std::sqrt(mean * (1.0 - share));
}

}  // namespace

TEST_CASE("masking chooses 15 % of the words: 80 % are hidden, 10 % replaced, 10 % kept") {
  const Ids tokens = sentence(500);
  std::size_t words = 0, chosen = 0, hidden = 0, replaced = 0;
  for (std::size_t example = 0; example < 400; ++example) {
    const Masked masked = mask(tokens, example);
    words += 500;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (masked.labels[i] == no_label) continue;
      ++chosen;
      hidden += masked.input[i] == unk_id;
      replaced += masked.input[i] != unk_id && masked.input[i] != tokens[i];
    }
  }
  CHECK(is_share(chosen, words, 0.15));
  CHECK(is_share(hidden, chosen, 0.80));
  // One word in 996 is replaced by itself.
  CHECK(is_share(replaced, chosen, 0.10 * 995 / 996));
}

TEST_CASE("the label of a chosen word is the word; other places are unchanged and have no label") {
  const Ids tokens = sentence(50);
  for (std::size_t example = 0; example < 100; ++example) {
    const Masked masked = mask(tokens, example);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (masked.labels[i] == no_label) {
        CHECK(masked.input[i] == tokens[i]);
      } else {
        CHECK(masked.labels[i] == tokens[i]);
      }
    }
  }
}

TEST_CASE("masking replaces a word by any word of the vocabulary, never by a special symbol") {
  Ids drawn;
  for (std::size_t example = 0; example < 5000; ++example) {
    const Masked masked = mask({4}, example, rules(7));
    if (masked.input[0] != unk_id) drawn.push_back(masked.input[0]);
  }
  for (std::int32_t id = first_word_id; id < 7; ++id) CHECK(std::ranges::count(drawn, id) > 50);
  CHECK(std::ranges::all_of(drawn, [](std::int32_t id) { return id >= 4 && id < 7; }));
}

TEST_CASE("masking chooses at least one word of every sentence, and never a special symbol") {
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
  // Neither of two words is favored when one has to be taken.
  CHECK(is_share(first, alone, 0.5));
}

TEST_CASE("masking chooses nothing in a sentence without words") {
  CHECK(mask({bos_id, eos_id}, 0) == Masked{{bos_id, eos_id}, {no_label, no_label}});
  CHECK(mask({}, 0) == Masked{});
}

TEST_CASE("masking chooses an unknown word if a sentence has no others") {
  const Masked masked = mask({bos_id, unk_id, unk_id, eos_id}, 0);
  CHECK(std::ranges::count(masked.labels, unk_id) >= 1);
  CHECK(masked.labels.front() == no_label);
  CHECK(masked.labels.back() == no_label);
}

TEST_CASE("masking depends on seed, epoch and example only") {
  const Ids tokens = sentence(100);
  const Masked first = mask(tokens, 3);
  CHECK(mask(tokens, 3) == first);
  CHECK(mask(tokens, 4) != first);
  CHECK(mask(tokens, 3, rules(1000, 2)) != first);
  CHECK(mask(tokens, 3, rules(1000, 1, 1)) != first);
  CHECK(mask(tokens, 3, rules(1000, 1, 1)) != mask(tokens, 3, rules(1000, 1, 2)));
}

TEST_CASE("no epoch of a seed has the masks of an epoch of another seed") {
  const Ids tokens = sentence(60);
  std::vector<Masked> all;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      all.push_back(mask(tokens, 3, rules(1000, seed, epoch)));
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(all[i] == all[j]);
  }
}

TEST_CASE("which words masking chooses does not depend on the words") {
  Ids others = sentence(100);
  std::reverse(others.begin() + 1, others.end() - 1);
  const Ids a = mask(sentence(100), 3).labels, b = mask(others, 3).labels;
  for (std::size_t i = 0; i < a.size(); ++i) CHECK((a[i] == no_label) == (b[i] == no_label));
}

TEST_CASE("masks never change: runs must resume after an update of the program") {
  Xxh3 hash;
  for (const std::size_t example : {0, 1, 70'000}) {
    const Masked masked = mask(sentence(200), example, rules(1000, 7, 3));
    hash.add(masked.input.data(), masked.input.size() * sizeof(std::int32_t));
    hash.add(masked.labels.data(), masked.labels.size() * sizeof(std::int32_t));
  }
  CHECK(hash.value() == 13240793466648863824u);
}
