#include "train/system/memory.h"

#include <doctest/doctest.h>

#include "tests/support/temporary_folder.h"
#include "tests/train/program.h"

namespace tapestry {
namespace {

constexpr std::uint64_t no_limit = AvailableMemory::no_limit;
constexpr std::uint64_t mib = 1 << 20;

/// A tree with proc and sys of a machine.
class Machine {
 public:
  Machine() {
    write("proc/meminfo",
          "MemTotal:  8192 kB\nMemFree: 1 kB\nMemAvailable:  4096 kB\nSwapTotal: 1024 kB\n");
  }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    test::write_text(root_ / path, text);
  }
  AvailableMemory read() const { return read_available_memory(root_.path()); }

 private:
  test::TemporaryFolder root_;
};

void check(const AvailableMemory& memory, std::uint64_t free, std::uint64_t total,
           const std::string& bound) {
  CHECK(memory.free == free);
  CHECK(memory.total == total);
  CHECK(memory.bound == bound);
}

TEST_CASE("without limits, memory is what is available, and in total with swap") {
  check(Machine().read(), 4 * mib, 9 * mib, "");
}

TEST_CASE("memory is unlimited if no file of the system states a limit") {
  const test::TemporaryFolder nothing;
  check(read_available_memory(nothing.path()), no_limit, no_limit, "");
}

TEST_CASE("a control group of version 2 has its limit minus use other than file caches") {
  const Machine machine;
  machine.write("proc/self/cgroup", "0::/a/b\n");
  machine.write("sys/fs/cgroup/a/b/memory.max", "3145728\n");
  machine.write("sys/fs/cgroup/a/b/memory.current", "2097152\n");
  machine.write("sys/fs/cgroup/a/b/memory.stat",
                "anon 9\ninactive_file 524288\nactive_file 524288\n");
  check(machine.read(), 2 * mib, 4 * mib, "the control group's limit");
}

TEST_CASE("a control group of version 1 is read too, and an unlimited one has no effect") {
  const Machine machine;
  machine.write("proc/self/cgroup", "9:cpu:/c\n4:memory:/c\n0::/\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  machine.write("sys/fs/cgroup/memory.max", "max\n");
  check(machine.read(), 4 * mib, 9 * mib, "");
  machine.write("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "2097152\n");
  machine.write("sys/fs/cgroup/memory/c/memory.usage_in_bytes", "1572864\n");
  machine.write("sys/fs/cgroup/memory/c/memory.stat", "inactive_file 9\ntotal_inactive_file 0\n");
  check(machine.read(), mib / 2, 3 * mib, "the control group's limit");
}

TEST_CASE("the limit of a parent control group applies if it is lower") {
  const Machine machine;
  machine.write("proc/self/cgroup", "0::/a/b\n");
  machine.write("sys/fs/cgroup/a/memory.max", "1048576\n");
  machine.write("sys/fs/cgroup/a/b/memory.max", "2097152\n");
  check(machine.read(), mib, 2 * mib, "the control group's limit");
}

TEST_CASE("a control group's remaining memory applies if it is less than the machine's") {
  const Machine machine;
  machine.write("proc/self/cgroup", "0::/\n");
  machine.write("sys/fs/cgroup/memory.max", "6291456\n");
  machine.write("sys/fs/cgroup/memory.current", "5242880\n");
  check(machine.read(), mib, 7 * mib, "the control group's limit");
}

TEST_CASE("a control group above its limit has 0 bytes left") {
  const Machine machine;
  machine.write("proc/self/cgroup", "0::/\n");
  machine.write("sys/fs/cgroup/memory.max", "1048576\n");
  machine.write("sys/fs/cgroup/memory.current", "2097152\n");
  check(machine.read(), 0, 2 * mib, "the control group's limit");
}

TEST_CASE("limits of the process are reduced by its use and exclude swap") {
  const Machine machine;
  machine.write("proc/self/limits",
                "Limit            Soft Limit  Hard Limit  Units\n"
                "Max data size    unlimited   unlimited   bytes\n"
                "Max address space  3145728   unlimited   bytes\n");
  machine.write("proc/self/status", "VmSize:  1024 kB\nVmData:  512 kB\n");
  check(machine.read(), 2 * mib, 3 * mib, "ulimit -v");
  machine.write("proc/self/limits",
                "Max data size      1048576   unlimited   bytes\n"
                "Max address space  3145728   unlimited   bytes\n");
  check(machine.read(), mib / 2, mib, "ulimit -d");
}

TEST_CASE("this machine has memory") {
  const AvailableMemory memory = read_available_memory();
  CHECK(memory.free > 0);
  CHECK(memory.free < memory.total);
  CHECK(memory.total < no_limit);
}

}  // namespace
}  // namespace tapestry
