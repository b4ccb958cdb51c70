// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "train/config/reader.h"

namespace tapestry {
namespace {

constexpr std::array<std::string_view, 5> sections{"data", "model", "optimizer", "schedule",
                                                   "train"};

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_word_character);
}

/// Whether the text can be written without quotes in YAML.
bool is_plain_word(std::string_view text) {
  const auto allowed = [](char c) { return is_word_character(c) || c == '-' || c == '.'; };
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, allowed);
}

}  // namespace

std::string_view CustomKey::section() const {
  return std::string_view(path_).substr(0, path_.find('.'));
}

std::string_view CustomKey::key() const {
  const std::size_t dot = path_.find('.');
  return dot == path_.npos ? std::string_view() : std::string_view(path_).substr(dot + 1);
}

std::string CustomKey::definition_error() const {
  if (std::ranges::find(sections, section()) == sections.end()) {
    return "expected the section data, model, optimizer, schedule or train";
  }
  if (!is_name(key())) {
    return fmt::format("expected {}.KEY, with a key of letters, digits and `_`", section());
  }
  if (const auto* choices = std::get_if<OneOf>(&domain_.any())) {
    const auto bad = std::ranges::find_if_not(choices->names, is_plain_word);
    if (bad != choices->names.end()) {
      return fmt::format(
          "found the choice \"{}\", expected words of letters, digits, `_`, `-` and `.`", *bad);
    }
  }
  const FieldValue initial =
      std::visit([](const auto& value) { return FieldValue(value); }, initial_);
  const std::string text = std::visit([](const auto& v) { return fmt::format("{}", v); }, initial_);
  const Parsed parsed = domain_.parse(text);
  const auto* value = std::get_if<FieldValue>(&parsed);
  if (value != nullptr && value->index() == initial.index()) return "";
  return fmt::format("the default is {}, expected {}", text.empty() ? "\"\"" : text,
                     domain_.expected());
}

bool ConfigKind::uses(std::string_view path) const {
  if (!model_keys || !path.starts_with("model.")) return true;
  return std::ranges::find(*model_keys, path) != model_keys->end() ||
         std::ranges::find(custom_keys, path, &CustomKey::path) != custom_keys.end();
}

std::vector<std::string> best_metrics_of(const ConfigKind& kind) {
  std::vector<std::string> metrics{"loss", "perplexity", "token_accuracy"};
  metrics.insert(metrics.end(), kind.scores.begin(), kind.scores.end());
  return metrics;
}

void ConfigCheck::reject(Keys keys, std::string message, std::string hint) const {
  const auto unused = [&](std::string_view key) { return kind_ != nullptr && !kind_->uses(key); };
  if (std::ranges::any_of(keys, unused)) return;
  const Place* place = nullptr;
  for (const std::string_view key : keys) {
    const auto origin = origins_.find(key);
    if (origin == origins_.end()) continue;
    if (!origin->second.valid) return;
    if (place == nullptr) place = &origin->second.place;
  }
  // At least one of the keys was set, since defaults do not contradict each other.
  if (place != nullptr) errors_.add(*place, std::move(message), std::move(hint));
}

bool ConfigCheck::is_set(std::string_view key) const { return origins_.contains(key); }

}  // namespace tapestry
