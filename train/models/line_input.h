// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "data/io/error.h"
#include "data/io/text_file.h"

namespace tapestry {

/// Values of --long-lines: the treatment of lines with more tokens than the model can read.
namespace long_lines {
inline constexpr const char* empty = "empty";  ///< the answer is an empty line
inline constexpr const char* cut = "cut";      ///< the first tokens are answered
inline constexpr const char* stop = "stop";    ///< the command fails
}  // namespace long_lines

/// A line of standard input.
struct InputLine {
  std::size_t number;              ///< line number, from 1
  std::optional<Example> example;  ///< nullopt if the answer is an empty line
};

/// Warns about each of the first three lines with a problem, and at the end about the number of all
/// such lines.
class LineWarnings {
 public:
  /// place    name of the input, for messages
  /// problem  what is wrong with the lines, such as "were too long"
  LineWarnings(std::string place, std::string problem)
      : place_(std::move(place)), problem_(std::move(problem)) {}

  void add(const std::string& warning, const char* consequence);
  void finish() const;

 private:
  static constexpr std::size_t max_warnings = 3;

  std::string place_, problem_;
  std::size_t count_ = 0;
};

/// Options for reading lines of standard input.
struct LineInputOptions {
  /// The example of a line, see TaskAnswers::read_line().
  std::function<std::optional<Example>(const std::string& line, std::size_t number,
                                       const std::string& place)>
      read;
  std::string hint;                              ///< hint for errors, see TaskWords::input_hint
  std::string on_long_line = long_lines::empty;  ///< a value of long_lines
  std::size_t window = 64;  ///< maximum number of lines that are answered together
};

/// Reads the lines of standard input for a program that prints one answer per line, in order. Warns
/// about lines that are too long, and shows the number of answered lines on a terminal.
class LineInput {
 public:
  explicit LineInput(LineInputOptions options);
  ~LineInput();

  /// Flushes the answers to the previous lines, which the caller has printed, and reads the next
  /// lines: at most LineOptions::window lines, or fewer if no further complete line is available,
  /// since the program that writes the lines may be waiting for answers.
  ///
  /// returns  the lines; empty at the end of the input
  /// throws   DataError if a line is not valid text or is rejected, after the preceding lines have
  ///          been returned; OutputError if the answers could not be written.
  std::vector<InputLine> next();

 private:
  InputLine read_line(std::string line);
  std::optional<InputLine> read_next();

  LineInputOptions options_;
  LineReader reader_;
  LineWarnings warnings_;
  std::unique_ptr<class LineProgress> progress_;
  std::size_t window_lines_ = 0;        ///< number of lines in the last result of next()
  std::size_t window_bytes_ = 0;        ///< number of bytes in these lines
  std::exception_ptr error_ = nullptr;  ///< error in the line that follows these lines
};

/// Replaces line feeds, carriage returns and NUL by spaces: the answer to a line must be one line.
/// Tokens of single bytes (data.byte_fallback) or of line ends may produce these characters.
std::string as_one_line(std::string answer);

/// Prepares a text of the data, such as an answer, for standard output. Applies escaped_lines() for
/// a terminal, which would interpret control characters; returns the text unchanged for files and
/// pipes.
std::string for_standard_output(std::string text);

}  // namespace tapestry
