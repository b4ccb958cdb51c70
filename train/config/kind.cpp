#include "train/config/kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <variant>

#include "train/config/domain.h"
#include "train/config/error.h"
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

/// Whether YAML reads the text, without quotes, as this text.
bool is_plain_word(std::string_view text) {
  const auto allowed = [](char c) { return is_word_character(c) || c == '-' || c == '.'; };
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, allowed);
}

std::string mistake_in(const CustomInteger& values) {
  if (values.minimum < 0) {
    return fmt::format("the minimum is {}, expected 0 or more", values.minimum);
  }
  if (values.minimum > values.maximum) {
    return fmt::format("the minimum is {}, more than the maximum ({})", values.minimum,
                       values.maximum);
  }
  return values.initial < 0 ? fmt::format("the default is {}, expected {}", values.initial,
                                          between(static_cast<std::uint64_t>(values.minimum),
                                                  static_cast<std::uint64_t>(values.maximum))
                                              .expected())
                            : "";
}

std::string mistake_in(const CustomChoice& values) {
  if (values.choices.empty()) return "there are no choices, expected at least one";
  std::set<std::string_view> seen;
  for (const std::string& choice : values.choices) {
    if (!is_plain_word(choice)) {
      return fmt::format(
          "there is a choice \"{}\", expected words of letters, digits, `_`, `-` and `.`", choice);
    }
    if (!seen.insert(choice).second) return fmt::format("the choice {} is there twice", choice);
  }
  return "";
}

}  // namespace

CustomKey::CustomKey(std::string path, Domain domain, CustomValue initial, std::string meaning,
                     ChangeRule rule)
    : path_(std::move(path)),
      domain_(std::make_shared<const Domain>(std::move(domain))),
      initial_(std::move(initial)),
      meaning_(std::move(meaning)),
      rule_(rule) {}

CustomKey CustomKey::integer(std::string path, const CustomInteger& values, std::string meaning,
                             ChangeRule rule) {
  constexpr auto no_limit = std::numeric_limits<std::int64_t>::max();
  const auto low = static_cast<std::uint64_t>(values.minimum);
  const WholeNumber domain = values.maximum == no_limit
                                 ? at_least(low)
                                 : between(low, static_cast<std::uint64_t>(values.maximum));
  CustomKey key(std::move(path), {domain}, static_cast<std::uint64_t>(values.initial),
                std::move(meaning), rule);
  key.mistake_ = mistake_in(values);
  return key;
}

CustomKey CustomKey::real(std::string path, const CustomReal& values, std::string meaning,
                          ChangeRule rule) {
  return {std::move(path),
          {RealNumber{.low = values.minimum,
                      .high = values.maximum,
                      .has_low = values.minimum_is_valid,
                      .has_high = values.maximum_is_valid}},
          values.initial,
          std::move(meaning),
          rule};
}

CustomKey CustomKey::flag(std::string path, const CustomFlag& values, std::string meaning,
                          ChangeRule rule) {
  return {std::move(path), {Flag()}, values.initial, std::move(meaning), rule};
}

CustomKey CustomKey::text(std::string path, const CustomText& values, std::string meaning,
                          ChangeRule rule) {
  return {std::move(path), {Text()}, values.initial, std::move(meaning), rule};
}

CustomKey CustomKey::choice(std::string path, const CustomChoice& values, std::string meaning,
                            ChangeRule rule) {
  CustomKey key(std::move(path), {OneOf{values.choices}}, values.initial, std::move(meaning), rule);
  key.mistake_ = mistake_in(values);
  return key;
}

CustomKey CustomKey::file(std::string path, const CustomPath& values, std::string meaning,
                          ChangeRule rule) {
  return {std::move(path), {FilePath()}, values.initial, std::move(meaning), rule};
}

std::string_view CustomKey::section() const {
  return std::string_view(path_).substr(0, path_.find('.'));
}

std::string_view CustomKey::key() const {
  const std::size_t dot = path_.find('.');
  return dot == path_.npos ? std::string_view() : std::string_view(path_).substr(dot + 1);
}

std::string CustomKey::mistake() const {
  if (std::ranges::find(sections, section()) == sections.end()) {
    return "expected a section data, model, optimizer, schedule or train";
  }
  if (!is_name(key())) {
    return fmt::format("expected {}.KEY, with a key of letters, digits and `_`", section());
  }
  if (!mistake_.empty()) return mistake_;
  const std::string* word = std::get_if<std::string>(&initial_);
  const std::string text =
      word != nullptr
          ? *word
          : std::visit([&](const auto& value) { return domain_->print(value); }, initial_);
  if (std::holds_alternative<FieldValue>(domain_->parse(text))) return "";
  return fmt::format("the default is {}, expected {}", text.empty() ? "\"\"" : text,
                     domain_->expected());
}

bool ConfigKind::uses(std::string_view path) const {
  if (!model_keys || !path.starts_with("model.")) return true;
  return std::ranges::find(*model_keys, path) != model_keys->end() ||
         std::ranges::find(custom_keys, path, &CustomKey::path) != custom_keys.end();
}

void ConfigCheck::refuse(Keys keys, std::string message, std::string hint) const {
  const auto unused = [&](std::string_view key) { return kind_ != nullptr && !kind_->uses(key); };
  if (std::ranges::any_of(keys, unused)) return;
  const Place* place = nullptr;
  for (const std::string_view key : keys) {
    const auto origin = origins_.find(key);
    if (origin == origins_.end()) continue;
    if (!origin->second.valid) return;
    if (place == nullptr) place = &origin->second.place;
  }
  // At least one of the keys was given, since defaults do not contradict each other.
  if (place != nullptr) errors_.add(*place, std::move(message), std::move(hint));
}

}  // namespace tapestry
