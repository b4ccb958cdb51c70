// SPDX-License-Identifier: BSD-3-Clause
#include "train/system/memory.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "tests/support/contains.h"
#include "tests/train/program.h"

namespace tapestry {
namespace {

struct EndOfProcess {
  int status = 0;    ///< status from waitpid()
  std::string said;  ///< standard error
};

/// Runs `terminated` in a process whose exit code for running out of memory is 8.
EndOfProcess end_of(void (*terminated)()) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    ::dup2(ends[1], STDERR_FILENO);
    set_out_of_memory_exit_code(8);
    terminated();
    ::_exit(0);
  }
  ::close(ends[1]);
  EndOfProcess end;
  char c = 0;
  while (::read(ends[0], &c, 1) == 1) end.said += c;
  ::close(ends[0]);
  ::waitpid(child, &end.status, 0);
  return end;
}

void throw_bad_alloc() { throw std::bad_alloc(); }
void lack_memory() noexcept { throw_bad_alloc(); }

TEST_CASE("termination without an exception or by bad_alloc is reported as running out of memory") {
  for (void (*terminated)() : {+[]() noexcept { std::terminate(); }, &lack_memory}) {
    const EndOfProcess end = end_of(terminated);
    CHECK(WIFEXITED(end.status));
    CHECK(WEXITSTATUS(end.status) == 8);
    CHECK(end.said ==
          "tapestry: error: the system has no more memory\n"
          "hint: end other programs or give it more memory (see `ulimit -v`)\n");
  }
}

TEST_CASE("any other uncaught exception ends a program with SIGABRT") {
  const EndOfProcess end = end_of([] {
    try {
      throw std::runtime_error("a bug");
    } catch (const std::runtime_error&) {
      std::terminate();
    }
  });
  CHECK(WIFSIGNALED(end.status));
  CHECK(WTERMSIG(end.status) == SIGABRT);
  CHECK_FALSE(test::contains(end.said, "no more memory"));
}

}  // namespace
}  // namespace tapestry
