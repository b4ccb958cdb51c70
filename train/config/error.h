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
  std::string file{};      ///< path as the user wrote it; `command line: KEY=VALUE` for an override
  std::size_t line = 0;    ///< from 1; 0 if unknown
  std::size_t column = 0;  ///< in characters, from 1
  std::size_t length = 1;  ///< characters to underline
  std::string source_line{};  ///< without its line break
};

/// One error in a config.
struct Diagnostic {
  Place place{};          ///< where it is; of a domain: nowhere yet
  std::string message{};  ///< what was found and what was expected
  std::string hint{};     ///< one action, or empty
};

/// The text of an error, without a line break at the end:
///
///     configs/copy.yaml:12:3: unknown key `d_modl` in `model`
///         d_modl: 64
///         ^~~~~~
///     hint: did you mean `d_model`?
///
/// The two middle lines are omitted if the line is unknown, the last line if there is no hint. A
/// long source line is shortened to the part around the position.
std::string to_string(const Diagnostic& error);

/// A config that cannot be used, with all its errors in line order, overrides last. what() has
/// all errors with their hints.
class ConfigError : public ErrorWith<ExitCode::usage> {
 public:
  /// One error or several.
  explicit ConfigError(std::vector<Diagnostic> diagnostics);

  /// All errors in order.
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Collects errors, so that all of them are reported at once.
class Diagnostics {
 public:
  /// The maximum number of errors; a file with more is probably not a config.
  static constexpr std::size_t max_size = 50;

  /// Adds an error: where it is, what was found and expected, and one action or nothing. Throws
  /// ConfigError if the list already has max_size errors.
  void add(Place place, std::string message, std::string hint = {});

  /// Whether there are no errors.
  bool empty() const { return errors_.empty(); }

  /// Throws ConfigError unless the list is empty.
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
