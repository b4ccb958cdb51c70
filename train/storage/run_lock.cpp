#include "train/storage/run_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <string>
#include <system_error>

#include "train/error.h"

namespace tapestry {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string holder_text() {
  return fmt::format("pid {} on {} since {:%Y-%m-%dT%H:%M:%SZ}\n", ::getpid(), host_name(),
                     fmt::gmtime(std::time(nullptr)));
}

/// What the holder wrote, up to the end of its first line.
std::string read_holder(FileSystem& files, int fd) {
  std::array<char, 512> text{};
  const ssize_t count = files.pread(fd, text.data(), text.size(), 0);
  const std::string read(text.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  const std::string line = read.substr(0, read.find('\n'));
  return line.empty() ? "another process" : line;
}

[[noreturn]] void lock_failure(const std::filesystem::path& path, std::string_view action) {
  const int code = errno;
  throw OutputError(fmt::format("{}: could not {}: {}", path.string(), action,
                                std::generic_category().message(code)),
                    "put the run directory on a disk that this user can write and lock");
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run_directory, FileSystem& files)
    : descriptor_(files, retry_interrupted([&] {
                    return files.open((run_directory / ".lock").c_str(),
                                      O_RDWR | O_CREAT | O_CLOEXEC, 0666);
                  })) {
  const auto path = run_directory / ".lock";
  if (!descriptor_.is_open()) lock_failure(path, "open the lock file");
  const int result =
      retry_interrupted([&] { return files.flock(descriptor_.get(), LOCK_EX | LOCK_NB); });
  if (result != 0 && errno == EWOULDBLOCK) {
    throw RunDirectoryInUse(
        fmt::format("{}: the run directory is in use by {}", run_directory.string(),
                    read_holder(files, descriptor_.get())),
        "wait for that process to end, or use another run directory");
  }
  if (result != 0) lock_failure(path, "lock the run directory");
  const std::string text = holder_text();
  if (files.ftruncate(descriptor_.get(), 0) != 0 ||
      files.write(descriptor_.get(), text.data(), text.size()) !=
          static_cast<ssize_t>(text.size())) {
    lock_failure(path, "write the lock file");
  }
}

}  // namespace tapestry
