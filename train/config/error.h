#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/error.h"

namespace tapestry {

/// A position in a config.
struct Place {
  std::string file;        ///< path as the user wrote it; `command line: KEY=VALUE` for an override
  std::size_t line = 0;    ///< from 1; 0 if unknown
  std::size_t column = 0;  ///< in characters, from 1
  std::size_t length = 1;  ///< characters to underline
  std::string source_line = {};  ///< without its line break
};

/// One error in a config.
struct Problem {
  Place place;          ///< where it is
  std::string message;  ///< what was found and what was expected
  std::string hint;     ///< one action, or empty
};

/// The text of a problem, without a line break at the end:
///
///     configs/copy.yaml:12:3: unknown key `d_modl` in `model`
///         d_modl: 64
///         ^~~~~~
///     hint: did you mean `d_model`?
///
/// The two middle lines are omitted if the line is unknown, the last line if there is no hint. A
/// long source line is shortened to the part around the position.
std::string to_string(const Problem& problem);

/// A config that cannot be used, with all its problems in line order, overrides last. what() has
/// all problems with their hints.
class ConfigError : public ErrorWith<ExitCode::usage> {
 public:
  /// The error of one problem or several.
  explicit ConfigError(std::vector<Problem> problems);

  /// All problems in order.
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// Collects problems, so that all of them are reported at once.
class ProblemList {
 public:
  /// The maximum number of problems; a file with more is probably not a config.
  static constexpr std::size_t most_problems = 50;

  /// Adds a problem: where it is, what was found and expected, and one action or nothing. Throws
  /// ConfigError if the list already has most_problems problems.
  void add(Place place, std::string message, std::string hint = {});

  /// Whether there are no problems.
  bool empty() const { return problems_.empty(); }

  /// Throws ConfigError unless the list is empty.
  void throw_if_any() const;

 private:
  std::vector<Problem> problems_;
};

/// Refuses a command-line option that does not match the model or the data.
///
/// throws  ConfigError, always.
[[noreturn]] void refuse_option(std::string_view option, const std::string& message,
                                const std::string& hint);

}  // namespace tapestry
