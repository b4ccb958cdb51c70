// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "data/file_list.h"
#include "train/config/choices.h"
#include "train/config/error.h"

/// The valid values of config keys, and their syntax in a config.
namespace tapestry {

// ---- The sets of valid values. Class Domain parses and prints the values of every set.

/// Whole numbers in [low, high], written in decimal digits only.
struct WholeNumber {
  std::uint64_t low = 0;                                           ///< minimum
  std::uint64_t high = std::numeric_limits<std::uint64_t>::max();  ///< maximum
};

/// Whole numbers >= low.
constexpr WholeNumber at_least(std::uint64_t low) { return {.low = low}; }
/// Whole numbers in [low, high].
constexpr WholeNumber between(std::uint64_t low, std::uint64_t high) { return {low, high}; }

/// Numbers of steps, or percentages of train.steps in (0%, 100%], such as 5%.
struct StepCount {
  WholeNumber number;  ///< the numbers
};

/// Numbers of steps >= low.
constexpr StepCount steps_from(std::uint64_t low) { return {{.low = low}}; }
/// Numbers of steps in [low, high].
constexpr StepCount steps_between(std::uint64_t low, std::uint64_t high) { return {{low, high}}; }

/// Finite numbers such as 0.1 or 1e-3 in an interval; each end is open or closed.
struct RealNumber {
  double low = 0.0;                                       ///< the lower end
  double high = std::numeric_limits<double>::infinity();  ///< the upper end
  bool has_low = true;   ///< whether the lower end is in the interval
  bool has_high = true;  ///< whether the upper end is in the interval
};

/// Numbers >= 0.
constexpr RealNumber not_negative() { return {}; }
/// Numbers > 0.
constexpr RealNumber positive() { return {.has_low = false}; }
/// Numbers in [low, high].
constexpr RealNumber between_reals(double low, double high) { return {.low = low, .high = high}; }
/// Numbers in [0, 1).
constexpr RealNumber from_0_below_1() { return {.high = 1.0, .has_high = false}; }

/// Numbers, or a word instead of a number.
struct NumberOrWord {
  RealNumber number;      ///< the numbers
  std::string_view word;  ///< the word, which is parsed as nullopt
};

/// Times in days, hours, minutes and seconds, such as 3h50m; at most 10,000 days.
struct Duration {};

/// `true` or `false`.
struct Flag {};

/// Any text, including the empty text.
struct Text {};

/// The path of a file, or empty for no file. load_config() makes it absolute. Like all paths, it
/// must not begin with `~` or `$NAME`, see find_shell_path().
struct FilePath {};

/// The paths of files: one path, a list such as `[a.txt, b.txt]`, or empty for no files.
/// load_config() makes the paths absolute.
struct FilePaths {};

/// The path of a folder of data, or empty for the folder of the config file.
struct FolderPath {};

/// The path of a run directory, or empty for the default. Rejects paths that cannot be created or
/// stored in a config: names of more than 255 bytes, paths of more than 4000 bytes, control
/// characters and invalid UTF-8.
struct RunPath {};

/// Lists of whole numbers, such as `[1, 3]`; a single number is a list of one element.
struct WholeNumbers {
  WholeNumber number;  ///< the numbers
};

/// One of several words.
struct OneOf {
  std::vector<std::string> names;  ///< the words
};

/// The names of an enumeration.
template <class E>
OneOf any_of() {
  OneOf words;
  for (const Named<E>& choice : choices_of<E>) words.names.emplace_back(choice.name);
  return words;
}

// ---- Domains.

/// The value of any key. An enumeration is stored by name.
using FieldValue =
    std::variant<bool, std::uint64_t, double, std::optional<double>, std::chrono::seconds,
                 std::string, FileList, std::vector<std::size_t>>;

/// A parsed value, or a Diagnostic that states why the text is invalid; its `place` is not set.
using Parsed = std::variant<FieldValue, Diagnostic>;

/// The valid values of a key: one of the sets above. Parses and prints values.
class Domain {
 public:
  /// One of the sets above.
  using Any = std::variant<WholeNumber, StepCount, RealNumber, NumberOrWord, Duration, Flag, Text,
                           FilePath, FilePaths, FolderPath, RunPath, WholeNumbers, OneOf>;

  /// Not explicit, so that a function with a Domain parameter accepts every set.
  template <class Set>
  requires std::constructible_from<Any, Set> Domain(Set set) : set_(std::move(set)) {}

  /// Describes the set in messages: "a whole number >= 1".
  std::string expected() const;
  /// Parses a value, or returns the reason why the text is not in the set. Never throws and does
  /// not depend on the locale. Rejects percentages.
  Parsed parse(std::string_view text) const;
  /// The value as YAML text. parse() returns the same value for the text without its quotes.
  std::string print(const FieldValue& value) const;

  /// Whether the domain is a `Set`.
  template <class Set>
  bool is() const {
    return std::holds_alternative<Set>(set_);
  }
  /// Whether a value may be a list in YAML.
  bool is_list() const { return is<FilePaths>() || is<WholeNumbers>(); }
  /// Whether the values are paths of data files.
  bool is_file() const { return is<FilePath>() || is<FilePaths>(); }
  /// Whether the values are paths of data files or of a folder of data files.
  bool is_path() const { return is_file() || is<FolderPath>(); }
  /// Whether a value may be any text.
  bool is_text() const { return is_path() || is<Text>() || is<RunPath>(); }
  /// The valid words of a OneOf or NumberOrWord; empty for all other domains.
  std::vector<std::string> words() const;

  /// The set of valid values.
  const Any& any() const { return set_; }

 private:
  Any set_;
};

/// A regular expression (ECMAScript) of texts that do not begin with `~` or `$NAME`.
inline constexpr const char* path_pattern = R"(^(?!~|\$[A-Za-z_{]))";

/// The error for a path that begins with `~` or `$NAME`, which a config does not expand; nullopt
/// for other paths. A file with such a name can be written as `./~name`.
std::optional<Diagnostic> find_shell_path(std::string_view text);

/// A list in the syntax of Domain::parse(): `["a", "b"]`.
std::string print_list(const std::vector<std::string>& items);

/// Lists words as `a`, `a or b` or `a, b or c`.
std::string list_in_words(const std::vector<std::string>& words);

/// Calls f(path) for each path that is not empty in the value of a path domain.
void for_each_path(FieldValue& value, const std::function<void(std::string&)>& f);
/// Read-only version of the function above.
void for_each_path(const FieldValue& value, const std::function<void(const std::string&)>& f);

}  // namespace tapestry
