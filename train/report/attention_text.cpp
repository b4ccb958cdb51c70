#include "train/report/attention_text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tapestry {
namespace {

constexpr char repetition = '~';

char level_character(double weight) {
  const std::string_view characters = level_characters();
  const auto highest = static_cast<double>(characters.size() - 1);
  if (!(weight > 0.0)) return characters.front();
  const double level = std::round(std::sqrt(std::min(weight, 1.0)) * highest);
  return characters[static_cast<std::size_t>(std::max(level, 1.0))];
}

}  // namespace

std::string_view level_characters() {
  static const std::string characters = [] {
    std::string all;
    for (char c = '!'; c < repetition; ++c) {
      if (std::string_view("\"\\<>&'").find(c) == std::string_view::npos) all += c;
    }
    return all;
  }();
  return characters;
}

std::string weights_to_text(std::span<const double> weights) {
  constexpr std::size_t shortest = 3;  // repetitions, which take two characters
  const std::string_view characters = level_characters();
  std::string text;
  for (std::size_t i = 0; i < weights.size();) {
    const char character = level_character(weights[i]);
    std::size_t end = i + 1;
    while (end < weights.size() && level_character(weights[end]) == character) ++end;
    std::size_t repeated = end - i - 1;
    text += character;
    while (repeated >= shortest) {
      const std::size_t some = std::min(repeated, characters.size());
      text += repetition;
      text += characters[some - 1];
      repeated -= some;
    }
    text.append(repeated, character);
    i = end;
  }
  return text;
}

std::vector<double> weights_from_text(std::string_view text) {
  const std::string_view characters = level_characters();
  const auto highest = static_cast<double>(characters.size() - 1);
  std::vector<double> weights;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == repetition) {
      weights.resize(weights.size() + characters.find(text[++i]) + 1, weights.back());
    } else {
      const double root = static_cast<double>(characters.find(text[i])) / highest;
      weights.push_back(root * root);
    }
  }
  return weights;
}

}  // namespace tapestry
