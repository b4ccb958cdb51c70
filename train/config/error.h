// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "train/base/error.h"

namespace tapestry {

/// A position in a config.
struct Place {
  std::string file{};      ///< path as the user gave it; `command line: KEY=VALUE` for an override
  std::size_t line = 0;    ///< from 1; 0 if unknown
  std::size_t column = 0;  ///< in characters, from 1
  std::size_t length = 1;  ///< characters to underline
  std::string source_line{};  ///< without line break
};

/// One error in a config.
struct Diagnostic {
  Place place{};          ///< position; not set by Domain::parse()
  std::string message{};  ///< states the value found and the value expected
  std::string hint{};     ///< one action to fix the error, or empty
};

/// The text of an error, without a line break at the end:
///
///     configs/copy.yaml:12:3: unknown key `d_modl` in `model`
///         d_modl: 64
///         ^~~~~~
///     hint: did you mean `d_model`?
///
/// The two middle lines are omitted if the line number is unknown, and the last line if there is no
/// hint. A long source line is shortened to the part around the position.
std::string to_string(const Diagnostic& error);

/// The error for a text that is not in a set of values: `expected a whole number >= 1, found "x"`.
Diagnostic not_in(const std::string& expected, std::string_view text, std::string hint = {});

/// All errors of a config, sorted by line; errors in overrides come last. what() contains all
/// errors and their hints.
class ConfigError : public ErrorWith<ExitCode::usage> {
 public:
  /// diagnostics  at least one error
  explicit ConfigError(std::vector<Diagnostic> diagnostics);

  /// All errors in order.
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Collects errors to report them together.
class Diagnostics {
 public:
  /// The maximum number of errors; a file with more is probably not a config.
  static constexpr std::size_t max_size = 50;

  /// Adds an error. Throws ConfigError if there are already max_size errors.
  void add(Place place, std::string message, std::string hint = {});

  /// Whether there are no errors.
  bool empty() const { return errors_.empty(); }

  /// Throws ConfigError if there are errors.
  void throw_if_any() const;

 private:
  std::vector<Diagnostic> errors_;
};

/// Rejects a command-line option that does not match the model or the data.
///
/// throws  ConfigError, always.
[[noreturn]] void reject_option(std::string_view option, const std::string& message,
                                const std::string& hint);

}  // namespace tapestry
