#include "train/system/appended_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "data/io/durable_file.h"
#include "data/io/utf8.h"

namespace tapestry {
namespace {

std::string reason(const std::filesystem::path& path) {
  const int code = errno;
  return output_error_text(code, path.parent_path());
}

}  // namespace

AppendedFile::AppendedFile(std::filesystem::path path)
    : path_(std::move(path)),
      file_(posix_file_system(),
            ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                   0666)) {
  struct stat status {};
  if (!file_.is_open() || ::fstat(file_.get(), &status) != 0) {
    fail(reason(path_));
  } else if (!S_ISREG(status.st_mode)) {
    fail("not a regular file");
  }
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
  // An incomplete end would be removed by the next process at the latest.
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
