#include "train/config/domain.h"

namespace tapestry {
namespace {

/// The type of the values of a domain.
template <class D>
using ValueOf = std::variant_alternative_t<0, decltype(std::declval<const D&>().parse(""))>;

std::vector<std::string> word_values(const Flag&) { return {"true", "false"}; }
std::vector<std::string> word_values(const OneOf& domain) { return domain.names; }
std::vector<std::string> word_values(const NumberOrWord& domain) {
  return {std::string(domain.word)};
}
template <class D>
std::vector<std::string> word_values(const D&) {
  return {};
}

template <class Value>
void visit_paths(Value& value, const auto& f) {
  if (auto* path = std::get_if<std::string>(&value); path != nullptr && !path->empty()) f(*path);
  if (auto* files = std::get_if<FileList>(&value)) {
    for (auto& path : files->names()) f(path);
  }
}

}  // namespace

std::string Domain::expected() const {
  return std::visit([](const auto& domain) { return domain.expected(); }, domain_);
}

Parsed<FieldValue> Domain::parse(std::string_view text) const {
  return std::visit(
      [&]<class D>(const D& domain) -> Parsed<FieldValue> {
        Parsed<ValueOf<D>> parsed = domain.parse(text);
        if (auto* mistake = std::get_if<Mistake>(&parsed)) return std::move(*mistake);
        return FieldValue(std::get<ValueOf<D>>(std::move(parsed)));
      },
      domain_);
}

std::string Domain::print(const FieldValue& value) const {
  return std::visit(
      [&]<class D>(const D& domain) { return domain.print(std::get<ValueOf<D>>(value)); }, domain_);
}

std::vector<std::string> Domain::words() const {
  return std::visit([](const auto& domain) { return word_values(domain); }, domain_);
}

void for_each_path(FieldValue& value, const std::function<void(std::string&)>& f) {
  visit_paths(value, f);
}

void for_each_path(const FieldValue& value, const std::function<void(const std::string&)>& f) {
  visit_paths(value, f);
}

}  // namespace tapestry
