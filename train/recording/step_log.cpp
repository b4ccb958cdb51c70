#include "train/recording/step_log.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>
#include <vector>

namespace tapestry {
namespace {

/// Reads an open file line by line from its beginning. The file may be of any size: what is
/// longer than `longest_line` is not read as a line.
class LineScanner {
 public:
  LineScanner(AppendedFile& file, std::size_t longest_line)
      : file_(file), longest_line_(longest_line) {}

  /// The next line without its end; nullopt behind the last complete line, and after an error.
  std::optional<std::string> next() {
    while (true) {
      const std::size_t end = buffer_.find('\n', begin_);
      if (end != buffer_.npos) {
        const std::size_t begin = std::exchange(begin_, end + 1);
        return buffer_.substr(begin, end - begin);
      }
      if (buffer_.size() - begin_ > longest_line_ || !read_more()) return std::nullopt;
    }
  }

 private:
  bool read_more() {
    std::vector<char> block(65536);
    const std::size_t count = file_.read(read_, block);
    if (count == 0) return false;
    buffer_.erase(0, std::exchange(begin_, 0));
    buffer_.append(block.data(), count);
    read_ += count;
    return true;
  }

  AppendedFile& file_;
  std::size_t longest_line_;
  std::string buffer_;
  std::size_t begin_ = 0;   ///< of the next line in the buffer
  std::uint64_t read_ = 0;  ///< bytes
};

/// The number of bytes of the heading and the lines up to `step`, without what is not valid.
std::uint64_t valid_bytes(LineScanner& scanner, const StepLines& lines, std::uint64_t step) {
  std::uint64_t valid = 0;
  if (!lines.heading.empty()) {
    if (scanner.next() != lines.heading) return 0;
    valid = lines.heading.size() + 1;
  }
  std::uint64_t last = 0;
  while (const auto line = scanner.next()) {
    const auto found = lines.parse_step(*line);
    if (!found || *found > step || *found < last) break;
    last = *found;
    valid += line->size() + 1;
  }
  return valid;
}

}  // namespace

std::optional<std::uint64_t> parse_csv_step(std::string_view row, std::string_view heading) {
  std::uint64_t step = 0;
  const char* end = row.data() + row.size();
  const auto [stop, error] = std::from_chars(row.data(), end, step);
  const auto commas = [](std::string_view text) { return std::ranges::count(text, ','); };
  const bool whole =
      error == std::errc() && stop != end && *stop == ',' && commas(row) == commas(heading);
  return whole ? std::optional(step) : std::nullopt;
}

StepLog::StepLog(std::filesystem::path path, const StepLines& lines, std::uint64_t step)
    : file_(std::move(path)), lines_(lines) {
  drop_after(step);
}

void StepLog::drop_after(std::uint64_t step) {
  LineScanner scanner(file_, lines_.longest_line);
  const std::uint64_t valid = valid_bytes(scanner, lines_, step);
  const auto size = file_.size();
  if (!size) return;
  if (valid < *size) file_.truncate(valid);
  if (valid == 0 && !lines_.heading.empty()) append(std::string(lines_.heading) + "\n");
}

}  // namespace tapestry
