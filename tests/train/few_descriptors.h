#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace tapestry::test {

/// While it lives, this process can open `count` more files.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t count) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const int lowest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    REQUIRE(lowest >= 0);
    ::close(lowest);
    set({static_cast<rlim_t>(lowest) + count, before_.rlim_max});
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { set(before_); }

 private:
  static void set(const rlimit& limit) { ::setrlimit(RLIMIT_NOFILE, &limit); }

  rlimit before_{};
};

}  // namespace tapestry::test
