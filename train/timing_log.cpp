#include "train/timing_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <system_error>
#include <utility>

namespace tapestry {
namespace {

std::string reason() { return std::generic_category().message(errno); }

/// The step of a row with as many fields as the heading; nullopt for another line.
std::optional<std::uint64_t> step_of(std::string_view row) {
  std::uint64_t step = 0;
  const char* end = row.data() + row.size();
  const auto [stop, error] = std::from_chars(row.data(), end, step);
  const auto commas = [](std::string_view text) { return std::ranges::count(text, ','); };
  const bool whole =
      error == std::errc() && stop != end && *stop == ',' && commas(row) == commas(timing_heading);
  return whole ? std::optional(step) : std::nullopt;
}

/// The number of bytes of the heading and the rows up to `step`, without what is not complete.
std::size_t valid_bytes(std::string_view csv, std::uint64_t step) {
  const auto line = [&](std::size_t from) {
    const std::size_t end = csv.find('\n', from);
    return end == csv.npos ? std::string_view() : csv.substr(from, end - from);
  };
  if (line(0) != timing_heading) return 0;
  std::size_t valid = timing_heading.size() + 1;
  std::uint64_t last = 0;
  while (true) {
    const std::string_view row = line(valid);
    const auto found = step_of(row);
    if (!found || *found > step || *found < last) return valid;
    last = *found;
    valid += row.size() + 1;
  }
}

std::optional<std::string> read_all(int file) {
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t count = retry_interrupted(
        [&] { return ::pread(file, buffer, sizeof buffer, static_cast<off_t>(text.size())); });
    if (count < 0) return std::nullopt;
    if (count == 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
  }
}

}  // namespace

TimingLog::TimingLog(std::filesystem::path path, std::uint64_t step)
    : path_(std::move(path)),
      file_(posix_file_system(),
            ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                   0666)) {
  struct stat status {};
  if (!file_.is_open() || ::fstat(file_.get(), &status) != 0) {
    fail(reason());
  } else if (!S_ISREG(status.st_mode)) {
    fail("not a regular file");
  }
  drop_after(step);
}

void TimingLog::add(const Timing& timing) {
  append(fmt::format("{},{:%Y-%m-%dT%H:%M:%SZ},{:.6g},{:.6g},{:.6g}\n", timing.step,
                     fmt::gmtime(std::time(nullptr)), timing.elapsed_seconds, timing.step_seconds,
                     timing.targets_per_second));
}

void TimingLog::drop_after(std::uint64_t step) {
  if (problem_) return;
  const auto text = read_all(file_.get());
  if (!text) return fail(reason());
  const std::size_t valid = valid_bytes(*text, step);
  if (valid < text->size() && ::ftruncate(file_.get(), static_cast<off_t>(valid)) != 0) {
    return fail(reason());
  }
  if (valid == 0) append(std::string(timing_heading) + "\n");
}

void TimingLog::append(const std::string& line) {
  if (problem_) return;
  struct stat before {};
  if (::fstat(file_.get(), &before) != 0) return fail(reason());
  const ssize_t written =
      retry_interrupted([&] { return ::write(file_.get(), line.data(), line.size()); });
  if (written == static_cast<ssize_t>(line.size())) return;
  fail(written < 0 ? reason() : "the file system is full");
  // An incomplete line would be removed by the next process at the latest.
  if (written > 0) (void)!::ftruncate(file_.get(), before.st_size);
}

void TimingLog::fail(const std::string& what) {
  problem_ = fmt::format("{}: could not be written: {}", path_.string(), what);
}

}  // namespace tapestry
