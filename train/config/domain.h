#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "train/config/domains.h"

namespace tapestry {

/// The value of any key; the value of an enumeration is its name.
using FieldValue =
    std::variant<bool, std::uint64_t, double, std::optional<double>, std::chrono::seconds,
                 std::string, FileList, std::vector<std::size_t>>;

/// The domain of any key: one of those in domains.h. The domain of an enumeration is OneOf its
/// names.
class Domain {
 public:
  /// One of the domains.
  using Any = std::variant<WholeNumber, StepCount, RealNumber, NumberOrWord, Duration, Flag, Text,
                           FilePath, FilePaths, FolderPath, RunPath, WholeNumbers, OneOf>;

  /// Not explicit: a function that takes a Domain takes any of them.
  template <class D>
  requires std::constructible_from<Any, D> Domain(D domain) : domain_(std::move(domain)) {}
  /// The domain of an enumeration.
  template <class E>
  Domain(Choice<E>) : domain_(OneOf{Choice<E>::names()}) {}

  /// Describes the set in messages.
  std::string expected() const;
  /// The value of a text, or why it is not in the set.
  Parsed<FieldValue> parse(std::string_view text) const;
  /// The value as YAML text.
  std::string print(const FieldValue& value) const;

  /// Whether this is the domain D.
  template <class D>
  bool is() const {
    return std::holds_alternative<D>(domain_);
  }
  /// Whether a value may be a list in YAML.
  bool is_list() const { return is<FilePaths>() || is<WholeNumbers>(); }
  /// Whether the values are paths of data files.
  bool is_file() const { return is<FilePath>() || is<FilePaths>(); }
  /// Whether the values are paths of data files or of their folder.
  bool is_path() const { return is_file() || is<FolderPath>(); }
  /// Whether a value may be any text.
  bool is_text() const { return is_path() || is<Text>() || is<RunPath>(); }
  /// The values that are words; none for other numbers and texts.
  std::vector<std::string> words() const;

  /// The domain itself.
  const Any& any() const { return domain_; }

 private:
  Any domain_;
};

/// Calls f(path) for each path in the value of a path domain that is not empty.
void for_each_path(FieldValue& value, const std::function<void(std::string&)>& f);
/// The same without changes.
void for_each_path(const FieldValue& value, const std::function<void(const std::string&)>& f);

}  // namespace tapestry
