#include "data/masking.h"

#include <algorithm>
#include <vector>

#include "data/random.h"

namespace tapestry {

namespace {

constexpr std::uint64_t chosen_of_100 = 15;
constexpr std::uint64_t hidden_of_10 = 8, replaced_of_10 = 1;

RandomDraws draws_for(const BatchRules& rules, std::size_t example) {
  // The key joins seed and epoch: there are far fewer than 2^32 epochs.
  return {rules.seed + (rules.epoch << 32U), DrawPurpose::masking, example};
}

/// The positions of the words to predict.
std::vector<std::size_t> choose(std::span<const std::int32_t> tokens, RandomDraws& random) {
  std::vector<std::size_t> words, chosen;
  const auto take = [&](const auto& is_wanted) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (is_wanted(tokens[i])) words.push_back(i);
    }
  };
  take([](std::int32_t id) { return id >= first_word_id; });
  if (words.empty()) take([](std::int32_t id) { return id == unk_id; });
  for (const std::size_t i : words) {
    if (random.below(100) < chosen_of_100) chosen.push_back(i);
  }
  if (chosen.empty() && !words.empty()) chosen.push_back(words[random.below(words.size())]);
  return chosen;
}

std::int32_t shown_for(std::int32_t word, const BatchRules& rules, RandomDraws& random) {
  const std::uint64_t fate = random.below(10);
  if (fate < hidden_of_10) return unk_id;
  if (fate >= hidden_of_10 + replaced_of_10) return word;
  return first_word_id + static_cast<std::int32_t>(random.below(rules.vocabulary - first_word_id));
}

}  // namespace

void mask_tokens(std::span<const std::int32_t> tokens, const BatchRules& rules, std::size_t example,
                 std::int32_t* input, std::int32_t* labels) {
  std::ranges::copy(tokens, input);
  std::fill_n(labels, tokens.size(), no_label);
  RandomDraws random = draws_for(rules, example);
  for (const std::size_t i : choose(tokens, random)) {
    labels[i] = tokens[i];
    input[i] = shown_for(tokens[i], rules, random);
  }
}

}  // namespace tapestry
