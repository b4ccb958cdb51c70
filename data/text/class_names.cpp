#include "data/text/class_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>

#include "data/io/error.h"
#include "data/io/escape.h"

namespace tapestry {

namespace {

std::optional<long long> whole_number(const std::string& text) {
  long long number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

bool comes_before(const std::string& a, const std::string& b) {
  const auto key = [](const std::string& label) {
    const auto number = whole_number(label);
    return std::tuple(!number.has_value(), number.value_or(0), std::string_view(label));
  };
  return key(a) < key(b);
}

}  // namespace

std::string list_of_classes(const Vocabulary& classes) {
  constexpr std::size_t most = 10;
  const std::size_t count = classes.size() - first_word_id;
  std::string list;
  for (std::size_t i = 0; i < std::min(count, most); ++i) {
    list +=
        (i == 0 ? "" : ", ") + excerpt(classes.token(static_cast<std::int32_t>(i) + first_word_id));
  }
  return count > most ? fmt::format("{}, ... ({} in all)", list, count) : list;
}

bool can_be_class(std::string_view label) {
  return !label.empty() && label.find_first_of(" \t\n\v\f\r") == std::string_view::npos &&
         !is_special_symbol(label);
}

Vocabulary class_names(const std::vector<std::string>& labels, std::string_view name) {
  std::vector<std::string> different = labels;
  std::ranges::sort(different, comes_before);
  different.erase(std::unique(different.begin(), different.end()), different.end());
  if (different.size() >= 2) return Vocabulary(different);
  throw DataError(fmt::format("{}: every example has the label {}, expected two or more classes",
                              name, excerpt(different.empty() ? "" : different.front())),
                  "name a file with examples of every class");
}

std::int32_t class_id(const Vocabulary& classes, std::string_view label, const std::string& place) {
  const std::int32_t id = classes.id(label);
  if (id != unk_id) return id;
  throw DataError(
      fmt::format("{}: found the label {}, expected one of the classes {}", place, excerpt(label),
                  list_of_classes(classes)),
      "remove the example, or add examples of the class to the training set; a trained model "
      "keeps its classes");
}

}  // namespace tapestry
