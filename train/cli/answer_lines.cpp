#include "train/cli/answer_lines.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/text_file.h"
#include "train/cli/command.h"
#include "train/format.h"
#include "train/platform/standard_streams.h"

namespace tapestry {
namespace {

constexpr const char* input_name = "standard input";

/// The most bytes of lines that are answered together, unless one line has more.
constexpr std::size_t window_bytes = std::size_t{4} << 20;

/// The number of answered lines on a live line on standard error, if that is a terminal and
/// standard output, which has the answers, is not.
class LineProgress {
 public:
  LineProgress() : is_shown_(::isatty(STDERR_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 0) {
    const char* const terminal = std::getenv("TERM");
    if (terminal != nullptr && std::string_view(terminal) == "dumb") is_shown_ = false;
    struct stat status {};
    if (::fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode)) {
      bytes_ = static_cast<std::uint64_t>(status.st_size);
    }
  }
  ~LineProgress() { erase(); }
  LineProgress(const LineProgress&) = delete;
  LineProgress& operator=(const LineProgress&) = delete;

  /// Redraws the live line at most twice a second.
  void add(std::size_t lines, std::uint64_t bytes_read) {
    if (lines == 0) return;
    lines_ += lines;
    const auto now = Clock::now();
    if (!is_shown_ || now - drawn_ < std::chrono::milliseconds(500)) return;
    drawn_ = now;
    const double seconds = std::chrono::duration<double>(now - started_).count();
    std::string text = fmt::format(
        "\r{} lines, {} lines/s", format_count(lines_),
        format_count(static_cast<std::uint64_t>(static_cast<double>(lines_) / seconds)));
    if (bytes_ > 0) text += fmt::format(", {} % of the bytes", 100 * bytes_read / bytes_);
    show(text + "\x1B[K");
    is_drawn_ = true;
  }
  void erase() {
    if (is_drawn_) show("\r\x1B[K");
    is_drawn_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// Ignores errors, unlike fmt::print(), which throws: the destructor calls it.
  static void show(const std::string& text) { std::fputs(text.c_str(), stderr); }

  bool is_shown_, is_drawn_ = false;
  std::uint64_t bytes_ = 0;  ///< of the input; 0: unknown
  std::uint64_t lines_ = 0;  ///< that have been answered
  Clock::time_point started_ = Clock::now(), drawn_ = started_;
};

/// The lines that have been read and not yet answered.
class WaitingLines {
 public:
  WaitingLines(const LineInput& input,
               const std::function<void(std::span<const InputLine>)>& answer)
      : input_(input), answer_(answer) {}

  void add(const std::string& line, std::size_t number) try {
    bytes_ += line.size();
    add(number, input_.read(line, number, fmt::format("{}:{}", input_name, number)));
  } catch (const LongLine& error) {
    if (input_.on_long_line == long_lines::stop) throw;
    const bool cut = input_.on_long_line == long_lines::cut;
    progress_.erase();
    warnings_.add(error, cut ? "only the first are answered" : "the answer is an empty line");
    add(number, cut ? std::optional(error.cut()) : std::nullopt);
  }

  /// Adds a line that is too long to be split into tokens.
  void add_overlong(const OverlongLine& error, std::size_t number) {
    if (input_.on_long_line == long_lines::stop) throw OverlongLine(error);
    progress_.erase();
    warnings_.add(error, "the answer is an empty line");
    add(number, std::nullopt);
  }

  void finish(std::uint64_t bytes_read) {
    answer(bytes_read);
    progress_.erase();
    warnings_.finish();
  }

  bool is_full() const { return lines_.size() >= input_.window || bytes_ >= window_bytes; }

  void answer(std::uint64_t bytes_read) {
    answer_(lines_);
    flush_standard_output();
    progress_.add(lines_.size(), bytes_read);
    lines_.clear();
    bytes_ = 0;
  }

 private:
  void add(std::size_t number, std::optional<Example> example) {
    lines_.push_back({.number = number, .example = std::move(example)});
  }

  const LineInput& input_;
  const std::function<void(std::span<const InputLine>)>& answer_;
  LongLineWarnings warnings_{input_name};
  LineProgress progress_;
  std::vector<InputLine> lines_;
  std::size_t bytes_ = 0;
};

/// The next line, of which one that is too long to be read is added to `waiting`.
std::optional<std::string> next_line(LineReader& lines, WaitingLines& waiting) {
  while (true) {
    try {
      return lines.next();
    } catch (const OverlongLine& error) {
      waiting.add_overlong(error, lines.line_number());
      lines.skip_line();
    }
  }
}

}  // namespace

void LongLineWarnings::add(const DataError& error, const char* consequence) {
  if (++count_ <= most) warn(fmt::format("{}; {}", error.what(), consequence));
}

void LongLineWarnings::finish() const {
  if (count_ > most) warn(fmt::format("{}: {} lines were too long", place_, count_));
}

void answer_lines(const LineInput& input,
                  const std::function<void(std::span<const InputLine>)>& answer) {
  WaitingLines waiting(input, answer);
  LineReader lines(STDIN_FILENO, input_name, input.hint);
  try {
    while (const auto line = next_line(lines, waiting)) {
      waiting.add(*line, lines.line_number());
      if (waiting.is_full() || !lines.line_is_ready()) waiting.answer(lines.bytes_read());
    }
  } catch (const DataError&) {
    waiting.answer(lines.bytes_read());  // the lines before the one that cannot be used
    throw;
  }
  waiting.finish(lines.bytes_read());
}

std::string as_one_line(std::string answer) {
  constexpr std::string_view ends("\n\r\0", 3);
  std::ranges::replace_if(
      answer, [&](char c) { return ends.find(c) != ends.npos; }, ' ');
  return answer;
}

void add_long_lines(CLI::App& command, std::string& on_long_line) {
  command
      .add_option("--long-lines", on_long_line,
                  "The answer to a line with more tokens than the model can read: an empty line, "
                  "the answer to its first tokens, or none: the command fails")
      ->check(one_of({long_lines::empty, long_lines::cut, long_lines::stop}))
      ->capture_default_str();
}

}  // namespace tapestry
