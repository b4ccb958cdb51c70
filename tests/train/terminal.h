// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace tapestry::test {

/// Whether the system has no pseudo-terminals, as in a container without /dev/pts. In this case,
/// reports that the test is skipped.
inline bool has_no_terminals() {
  std::error_code ignored;
  const bool mounted = std::filesystem::exists("/dev/pts/ptmx", ignored);
  if (!mounted) MESSAGE("skipped: there are no pseudo-terminals here (/dev/pts)");
  return !mounted;
}

/// A terminal that records the text written to it.
class Terminal {
 public:
  Terminal() : controller_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    REQUIRE(controller_ >= 0);
    REQUIRE(::grantpt(controller_) == 0);
    REQUIRE(::unlockpt(controller_) == 0);
    path_ = ::ptsname(controller_);
    file_ = ::fdopen(::open(path_.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC), "w");
    REQUIRE(file_ != nullptr);
  }
  ~Terminal() {
    std::fclose(file_);
    ::close(controller_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  const std::string& path() const { return path_; }
  std::FILE* file() const { return file_; }

  void resize(unsigned short columns) const {
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    REQUIRE(::ioctl(controller_, TIOCSWINSZ, &size) == 0);
  }

  /// The text that other processes have written to the terminal since the last call.
  std::string text() const {
    std::string all;
    pollfd polled{.fd = controller_, .events = POLLIN, .revents = 0};
    while (::poll(&polled, 1, 100) == 1) {
      const std::string piece = read_piece();
      if (piece.empty()) break;
      all += piece;
    }
    return all;
  }

  /// The text that this process has written to file() since the last call. The kernel delivers it
  /// in pieces, so the function writes a mark and reads until the mark.
  std::string shown() const {
    constexpr char mark = '\a';
    std::fputc(mark, file_);
    std::fflush(file_);
    std::string all;
    while (all.empty() || all.back() != mark) {
      const std::string piece = read_piece();
      REQUIRE_FALSE(piece.empty());
      all += piece;
    }
    all.pop_back();
    return all;
  }

 private:
  std::string read_piece() const {
    std::array<char, 4096> piece{};
    const ssize_t count = ::read(controller_, piece.data(), piece.size());
    return {piece.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
  }

  int controller_;
  std::FILE* file_ = nullptr;
  std::string path_;
};

}  // namespace tapestry::test
