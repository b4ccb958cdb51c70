// SPDX-License-Identifier: BSD-3-Clause
#include "train/models/line_input.h"

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

#include "data/io/utf8.h"
#include "train/base/format.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

constexpr const char* input_name = "standard input";

/// The maximum size in bytes of lines that are answered together. A longer line is answered
/// separately.
constexpr std::size_t max_window_bytes = std::size_t{4} << 20;

}  // namespace

/// Shows the number of answered lines in a status line on standard error, if standard error is a
/// terminal and standard output, which receives the answers, is not.
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

  /// Redraws the status line at most twice a second.
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

  /// Ignores errors, since the destructor calls this function; fmt::print() would throw.
  static void show(const std::string& text) { std::fputs(text.c_str(), stderr); }

  bool is_shown_, is_drawn_ = false;
  std::uint64_t bytes_ = 0;  ///< size of the input in bytes; 0 if unknown
  std::uint64_t lines_ = 0;  ///< number of answered lines
  Clock::time_point started_ = Clock::now(), drawn_ = started_;
};

void LineWarnings::add(const std::string& warning, const char* consequence) {
  if (++count_ <= max_warnings) warn(fmt::format("{}; {}", warning, consequence));
}

void LineWarnings::finish() const {
  if (count_ > max_warnings) warn(fmt::format("{}: {} lines {}", place_, count_, problem_));
}

// ---- LineInput.

LineInput::LineInput(LineInputOptions options)
    : options_(std::move(options)),
      reader_(STDIN_FILENO, input_name, options_.hint),
      warnings_(input_name, "were too long"),
      progress_(std::make_unique<LineProgress>()) {}

LineInput::~LineInput() = default;

std::vector<InputLine> LineInput::next() {
  flush_standard_output();
  progress_->add(window_lines_, reader_.bytes_read());
  window_lines_ = window_bytes_ = 0;
  if (error_) std::rethrow_exception(error_);
  std::vector<InputLine> lines;
  try {
    while (auto line = read_next()) {
      lines.push_back(*std::move(line));
      if (lines.size() >= options_.window || window_bytes_ >= max_window_bytes) break;
      if (!reader_.line_is_ready()) break;
    }
  } catch (const DataError&) {
    if (lines.empty()) throw;
    error_ = std::current_exception();
  }
  window_lines_ = lines.size();
  if (lines.empty()) {
    progress_->erase();
    warnings_.finish();
  }
  return lines;
}

/// Reads the next line; nullopt at the end of the input. The answer to a line that is too long to
/// be split into tokens is an empty line.
std::optional<InputLine> LineInput::read_next() {
  try {
    auto line = reader_.next();
    if (!line) return std::nullopt;
    window_bytes_ += line->size();
    return read_line(*std::move(line));
  } catch (const OverlongLine& error) {
    if (options_.on_long_line == long_lines::stop) throw;
    progress_->erase();
    warnings_.add(error.what(), "the answer is an empty line");
    reader_.skip_line();
    return InputLine{.number = reader_.line_number(), .example = std::nullopt};
  }
}

InputLine LineInput::read_line(std::string line) {
  const std::size_t number = reader_.line_number();
  try {
    return {.number = number,
            .example = options_.read(line, number, fmt::format("{}:{}", input_name, number))};
  } catch (const LongLine& error) {
    if (options_.on_long_line == long_lines::stop) throw;
    const bool cut = options_.on_long_line == long_lines::cut;
    progress_->erase();
    warnings_.add(error.what(),
                  cut ? "only its first tokens are answered" : "the answer is an empty line");
    return {.number = number, .example = cut ? std::optional(error.cut()) : std::nullopt};
  }
}

std::string as_one_line(std::string answer) {
  constexpr std::string_view ends("\n\r\0", 3);
  std::ranges::replace_if(
      answer, [&](char c) { return ends.find(c) != ends.npos; }, ' ');
  return answer;
}

std::string for_standard_output(std::string text) {
  return ::isatty(STDOUT_FILENO) == 1 ? escaped_lines(text) : std::move(text);
}

}  // namespace tapestry
