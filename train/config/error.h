#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/error.h"

namespace tapestry {

/// Where something stands in a config.
struct Place {
  std::string file;        ///< as the user wrote it; `command line: KEY=VALUE` for an override
  std::size_t line = 0;    ///< from 1; 0 if there is no line to point at
  std::size_t column = 0;  ///< in characters, from 1
  std::size_t length = 1;  ///< characters to underline
  std::string source_line = {};  ///< without its line break
};

/// One thing that is wrong with a config.
struct Problem {
  Place place;
  std::string message;  ///< what was found, what was expected
  std::string hint;     ///< one action, or empty
};

/// The text of a problem, without a line break at its end:
///
///     configs/copy.yaml:12:3: unknown key `d_modl` in `model`
///         d_modl: 64
///         ^~~~~~
///     hint: did you mean `d_model`?
///
/// The middle lines are left out if there is no line, the last if there is no hint. Of a long line
/// the part around the place is shown.
std::string to_string(const Problem& problem);

/// A config that cannot be used, with everything that is wrong with it, in the order of the lines,
/// overrides last. The text is that of all problems with their hints.
class ConfigError : public ErrorWith<ExitCode::usage> {
 public:
  explicit ConfigError(std::vector<Problem> problems);

  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// Collects problems, so that the user sees all of them at once.
class ProblemList {
 public:
  /// A config with more problems than these is probably not a config.
  static constexpr std::size_t kMost = 50;

  /// Throws ConfigError if kMost problems have already been added.
  void add(Place place, std::string message, std::string hint = {});

  bool empty() const { return problems_.empty(); }

  /// Throws ConfigError unless the list is empty.
  void throw_if_any() const;

 private:
  std::vector<Problem> problems_;
};

/// Refuses a command-line option that does not fit the model or the data. throws ConfigError.
[[noreturn]] void refuse_option(std::string_view option, const std::string& message,
                                const std::string& hint);

}  // namespace tapestry
