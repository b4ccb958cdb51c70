#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "data/batch.h"
#include "data/io/error.h"
#include "train/cli/command.h"
#include "train/tasks/task.h"

namespace tapestry {

/// What to do with a line that has more tokens than the model can read: --long-lines.
namespace long_lines {
inline constexpr const char* empty = "empty";  ///< the answer is an empty line
inline constexpr const char* cut = "cut";      ///< the first tokens are answered
inline constexpr const char* stop = "stop";    ///< the command fails
}  // namespace long_lines

/// A line of standard input.
struct InputLine {
  std::size_t number;              ///< from 1
  std::optional<Example> example;  ///< nullopt if the answer is an empty line
};

/// How answer_lines() reads standard input.
struct LineInput {
  /// The example of a line, see TaskAnswers::read_line().
  std::function<std::optional<Example>(const std::string& line, std::size_t number,
                                       const std::string& place)>
      read;
  std::string hint;                              ///< see TaskWords::input_hint
  std::string on_long_line = long_lines::empty;  ///< one of long_lines
  std::size_t window = 64;                       ///< maximum lines that are answered together
};

/// Reads standard input and passes its lines to `answer`, in order, as many together as
/// LineInput::window allows; fewer if no further complete line is waiting, since the program that
/// writes the lines may wait for their answers. Each call prints one answer for each line; standard
/// output is flushed after it. Warns about lines that are too long, and shows on a terminal how
/// many lines have been answered.
///
/// throws  DataError if a line is not valid text or is refused, after the preceding lines have been
///         answered.
void answer_lines(const LineInput& input,
                  const std::function<void(std::span<const InputLine>)>& answer);

/// Warns about lines that are too long: about each of the first three, and at the end about their
/// number.
class LongLineWarnings {
 public:
  /// place  of the lines, for messages
  explicit LongLineWarnings(std::string place) : place_(std::move(place)) {}

  void add(const DataError& error, const char* consequence);
  void finish() const;

 private:
  static constexpr std::size_t most = 3;

  std::string place_;
  std::size_t count_ = 0;
};

/// An answer with spaces in place of line feeds, carriage returns and NUL, which tokens of single
/// bytes (data.byte_fallback) or of line ends may give: the answer to a line is one line.
std::string as_one_line(std::string answer);

/// --long-lines, whose default is the value of `on_long_line`.
void add_long_lines(CLI::App& command, std::string& on_long_line);

}  // namespace tapestry
