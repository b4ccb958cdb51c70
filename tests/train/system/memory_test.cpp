// SPDX-License-Identifier: BSD-3-Clause
#include "train/system/memory.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/program.h"

namespace tapestry {
namespace {

constexpr std::uint64_t no_memory_limit = AvailableMemory::no_limit;
constexpr std::uint64_t mib = 1 << 20;

using Files = std::map<std::string, std::string>;  ///< path and text

TEST_CASE("available memory is the minimum of the machine's memory and all limits") {
  const std::string group = "the control group's limit", meminfo = "proc/meminfo";
  const std::string cgroup = "proc/self/cgroup", root = "sys/fs/cgroup/";
  struct Row {
    const char* what;
    Files files;
    std::uint64_t free, total;
    std::string bound;
  };
  for (const Row& row : std::vector<Row>{
           {"no limit, in total with swap", {}, 4 * mib, 9 * mib, ""},
           {"no file of the system", {{meminfo, ""}}, no_memory_limit, no_memory_limit, ""},
           {"a group of version 2; file caches count as free",
            {{cgroup, "0::/a/b\n"},
             {root + "a/b/memory.max", "3145728\n"},
             {root + "a/b/memory.current", "2097152\n"},
             {root + "a/b/memory.stat", "anon 9\ninactive_file 524288\nactive_file 524288\n"}},
            2 * mib,
            4 * mib,
            group},
           {"unlimited groups of both versions",
            {{cgroup, "9:cpu:/c\n4:memory:/c\n0::/\n"},
             {root + "memory/memory.limit_in_bytes", "9223372036854771712\n"},
             {root + "memory.max", "max\n"}},
            4 * mib,
            9 * mib,
            ""},
           {"a group of version 1",
            {{cgroup, "9:cpu:/c\n4:memory:/c\n0::/\n"},
             {root + "memory/c/memory.limit_in_bytes", "2097152\n"},
             {root + "memory/c/memory.usage_in_bytes", "1572864\n"},
             {root + "memory/c/memory.stat", "inactive_file 9\ntotal_inactive_file 0\n"}},
            mib / 2,
            3 * mib,
            group},
           {"the lower limit of a parent group",
            {{cgroup, "0::/a/b\n"},
             {root + "a/memory.max", "1048576\n"},
             {root + "a/b/memory.max", "2097152\n"}},
            mib,
            2 * mib,
            group},
           {"a group with less left than the machine",
            {{cgroup, "0::/\n"},
             {root + "memory.max", "6291456\n"},
             {root + "memory.current", "5242880\n"}},
            mib,
            7 * mib,
            group},
           {"a group above its limit",
            {{cgroup, "0::/\n"},
             {root + "memory.max", "1048576\n"},
             {root + "memory.current", "2097152\n"}},
            0,
            2 * mib,
            group},
           {"the address space of the process, without swap",
            {{"proc/self/limits",
              "Limit            Soft Limit  Hard Limit  Units\n"
              "Max data size    unlimited   unlimited   bytes\n"
              "Max address space  3145728   unlimited   bytes\n"},
             {"proc/self/status", "VmSize:  1024 kB\nVmData:  512 kB\n"}},
            2 * mib,
            3 * mib,
            "ulimit -v"},
           {"the data size of the process",
            {{"proc/self/limits",
              "Max data size      1048576   unlimited   bytes\n"
              "Max address space  3145728   unlimited   bytes\n"},
             {"proc/self/status", "VmSize:  1024 kB\nVmData:  512 kB\n"}},
            mib / 2,
            mib,
            "ulimit -d"}}) {
    CAPTURE(row.what);
    Files files{
        {meminfo,
         "MemTotal:  8192 kB\nMemFree: 1 kB\nMemAvailable:  4096 kB\nSwapTotal: 1024 kB\n"}};
    for (const auto& [path, text] : row.files) files[path] = text;
    const test::TemporaryFolder machine;
    for (const auto& [path, text] : files) {
      std::filesystem::create_directories((machine / path).parent_path());
      test::write_text(machine / path, text);
    }
    const AvailableMemory memory = read_available_memory(machine.path());
    CHECK(memory.free == row.free);
    CHECK(memory.total == row.total);
    CHECK(memory.bound == row.bound);
  }
}

TEST_CASE("this machine has memory") {
  const AvailableMemory memory = read_available_memory();
  CHECK(memory.free > 0);
  CHECK(memory.free < memory.total);
  CHECK(memory.total < no_memory_limit);
}

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

TEST_CASE("termination without an exception or by bad_alloc is reported as being out of memory") {
  for (void (*terminated)() : {+[]() noexcept { std::terminate(); }, &lack_memory}) {
    const EndOfProcess end = end_of(terminated);
    CHECK(WIFEXITED(end.status));
    CHECK(WEXITSTATUS(end.status) == 8);
    CHECK(end.said ==
          "tapestry: error: the system has no more memory\n"
          "hint: end other programs or give it more memory (see `ulimit -v`)\n");
  }
}

TEST_CASE("another uncaught exception ends a program with SIGABRT") {
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
