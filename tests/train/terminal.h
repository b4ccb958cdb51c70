#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace tapestry::test {

/// Whether this system has no pseudo-terminals, such as a container without /dev/pts; the test is
/// then skipped with a message.
inline bool has_no_terminals() {
  std::error_code ignored;
  const bool mounted = std::filesystem::exists("/dev/pts/ptmx", ignored);
  if (!mounted) MESSAGE("skipped: there are no pseudo-terminals here (/dev/pts)");
  return !mounted;
}

/// A terminal that shows what is written to it.
class Terminal {
 public:
  Terminal() : controller_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    REQUIRE(controller_ >= 0);
    REQUIRE(::grantpt(controller_) == 0);
    REQUIRE(::unlockpt(controller_) == 0);
    path_ = ::ptsname(controller_);
    kept_open_ = ::open(path_.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  }
  ~Terminal() {
    ::close(kept_open_);
    ::close(controller_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  const std::string& path() const { return path_; }
  /// What has been written since the last call.
  std::string text() const {
    std::string all;
    pollfd polled{.fd = controller_, .events = POLLIN, .revents = 0};
    while (::poll(&polled, 1, 100) == 1) {
      std::array<char, 4096> piece{};
      const ssize_t count = ::read(controller_, piece.data(), piece.size());
      if (count <= 0) break;
      all.append(piece.data(), static_cast<std::size_t>(count));
    }
    return all;
  }

 private:
  int controller_, kept_open_ = -1;
  std::string path_;
};

}  // namespace tapestry::test
