// SPDX-License-Identifier: BSD-3-Clause
#include "train/recording/event_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/durable_file.h"
#include "data/io/file.h"
#include "data/io/number.h"
#include "data/io/utf8.h"
#include "train/checkpoint/run_directory.h"
#include "train/system/standard_streams.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t max_line_length = std::size_t{16} << 20U;  // in bytes

/// Step and name of an event.
struct EventHead {
  std::uint64_t step = 0;
  std::string_view event;
};

/// Parses the first two members of a line; nullopt if it is not an event.
std::optional<EventHead> parse_head(std::string_view line) {
  constexpr std::string_view begin = R"({"step":)", middle = R"(,"event":")";
  if (!line.starts_with(begin) || !line.ends_with('}')) return std::nullopt;
  EventHead head;
  const char* const digits = line.data() + begin.size();
  const auto [stop, error] = std::from_chars(digits, line.data() + line.size(), head.step);
  if (error != std::errc()) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(stop - line.data()));
  const std::size_t end = line.find('"', middle.size());
  if (!line.starts_with(middle) || end == line.npos) return std::nullopt;
  head.event = line.substr(middle.size(), end - middle.size());
  return head;
}

/// Reads a file of any size line by line from its beginning. Stops at a line longer than
/// max_line_length.
class LineScanner {
 public:
  explicit LineScanner(AppendedFile& file) : file_(file) {}

  /// The next line without its line feed; nullopt after the last complete line and after an error.
  std::optional<std::string> next() {
    while (true) {
      const std::size_t end = buffer_.find('\n', begin_);
      if (end != buffer_.npos) {
        const std::size_t begin = std::exchange(begin_, end + 1);
        return buffer_.substr(begin, end - begin);
      }
      if (buffer_.size() - begin_ > max_line_length || !read_more()) return std::nullopt;
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
  std::string buffer_;
  std::size_t begin_ = 0;   // offset of the next line in buffer_
  std::uint64_t read_ = 0;  // number of bytes read from the file
};

}  // namespace

EventLog::EventLog(std::filesystem::path path, std::uint64_t step, std::uint64_t validation_step)
    : file_(std::move(path)) {
  drop_after(step, validation_step);
}

void EventLog::add(std::uint64_t step, std::string_view event, const Json& fields) {
  Json line = {{"step", step}, {"event", event}};
  line.update(fields);
  file_.append(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void EventLog::drop_after(std::uint64_t step, std::uint64_t validation_step) {
  LineScanner scanner(file_);
  std::uint64_t kept_bytes = 0, last = 0;
  std::optional<std::string> rest;  // kept lines after the first dropped line
  while (const auto line = scanner.next()) {
    const auto head = parse_head(*line);
    if (!head || head->step > step || head->step < last) break;
    last = head->step;
    if (head->event == "validation" && head->step > validation_step) {
      if (!rest) rest.emplace();
    } else if (rest) {
      *rest += *line + "\n";
    } else {
      kept_bytes += line->size() + 1;
    }
  }
  const auto size = file_.size();
  if (size && kept_bytes < *size) file_.truncate(kept_bytes);
  if (rest && !rest->empty()) file_.append(*rest);
}

std::size_t read_events(std::string_view text, std::string_view event,
                        const std::function<void(std::uint64_t, const Json&)>& read) {
  // Discards values that are nested deeper than this program writes, since parsing them could cause
  // deep recursion.
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth < 8; };
  std::uint64_t last = 0;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    try {
      const auto head = parse_head(line);
      if (!head || head->step < last) break;
      last = head->step;
      if (head->event == event) read(head->step, Json::parse(line, shallow));
    } catch (const Json::exception&) {
      break;
    }
    text.remove_prefix(end + 1);
  }
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

std::string read_events_file(const std::filesystem::path& run) try {
  return read_run_file(run / events_file_name).value_or("");
} catch (const FileError& error) {
  warn(error.what());
  return "";
}

// ---- Numbers.

Json json_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return parse_number<double>(fmt::format("{:.6g}", value)).value();
}

Json json_numbers(std::span<const double> values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(json_number(value));
  return list;
}

double number_of(const Json& json) { return json.is_null() ? std::nan("") : json.get<double>(); }

namespace {

std::string reason(const std::filesystem::path& path) {
  const int code = errno;
  return output_error_text(code, path.parent_path());
}

}  // namespace

AppendedFile::AppendedFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open_run_file(path_, O_RDWR | O_CREAT | O_APPEND)) {
  if (!file_.is_open()) fail(run_file_problem(errno, path_));
}

std::optional<std::uint64_t> AppendedFile::size() {
  if (problem_) return std::nullopt;
  struct stat status {};
  if (::fstat(file_.get(), &status) == 0) return static_cast<std::uint64_t>(status.st_size);
  fail(reason(path_));
  return std::nullopt;
}

std::size_t AppendedFile::read(std::uint64_t offset, std::span<char> bytes) {
  if (problem_) return 0;
  const ssize_t count = retry_interrupted(
      [&] { return ::pread(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
  if (count < 0) fail(reason(path_));
  return count < 0 ? 0 : static_cast<std::size_t>(count);
}

void AppendedFile::append(std::string_view bytes) {
  const auto before = size();
  if (!before) return;
  const ssize_t written =
      retry_interrupted([&] { return ::write(file_.get(), bytes.data(), bytes.size()); });
  if (written == static_cast<ssize_t>(bytes.size())) return;
  fail(written < 0 ? reason(path_) : "the file system is full");
  // If truncating also fails, the next process removes the incomplete line.
  if (written > 0) (void)!::ftruncate(file_.get(), static_cast<off_t>(*before));
}

void AppendedFile::truncate(std::uint64_t size) {
  if (problem_) return;
  if (::ftruncate(file_.get(), static_cast<off_t>(size)) != 0) fail(reason(path_));
}

void AppendedFile::fail(const std::string& what) {
  problem_ = fmt::format("{}: could not be written: {}", escaped(path_.string()), what);
}

}  // namespace tapestry
