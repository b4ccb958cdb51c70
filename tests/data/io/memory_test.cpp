// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/memory.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "data/io/error.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

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
           {"no system files", {{meminfo, ""}}, no_memory_limit, no_memory_limit, ""},
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
           {"a group with less free memory than the machine",
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
      std::ofstream(machine / path) << text;
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

TEST_CASE("a need for more memory than a limit or the machine allows is rejected with both sizes") {
  const auto error = [](std::uint64_t need, const AvailableMemory& available) -> std::string {
    try {
      require_memory("x.h5: found 9 images", need, "use fewer", available);
    } catch (const MemoryError& rejected) {
      return rejected.what();
    }
    return "";
  };
  const AvailableMemory limited{.free = 1000 * mib, .total = 2000 * mib, .bound = "ulimit -v"};
  CHECK(error(1000 * mib, limited).empty());
  CHECK(test::contains(error(1001 * mib, limited), "x.h5: found 9 images, which need 1.05 GB"));
  CHECK(test::contains(error(9000 * mib, limited), "9.44 GB of memory, expected at most 1.05 GB"));
  CHECK(test::contains(error(9000 * mib, limited), "ulimit -v"));
  const AvailableMemory machine{.free = 1000 * mib, .total = 2000 * mib};
  CHECK(error(2000 * mib, machine).empty());
  CHECK(test::contains(error(2001 * mib, machine), "memory of this machine"));
}

}  // namespace
}  // namespace tapestry
