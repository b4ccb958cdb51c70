#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <csignal>
#include <exception>
#include <fstream>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/program.h"
#include "train/system/machine.h"

namespace tapestry {
namespace {

const double no_limit = std::numeric_limits<double>::infinity();

std::string text_or_none(const std::optional<std::string>& warning) {
  return warning.value_or("none");
}

TEST_CASE("more threads than cores or the quota of the control group are reported, by the lower") {
  const std::string on_2 = "warning: threads: 8 on 2 cores; try train.threads=2";
  struct Row {
    Cores cores;
    std::size_t threads;
    std::string expected;
  };
  const auto limited = [](std::size_t threads, const char* quota) {
    return fmt::format(
        "warning: threads: {}, but the control group's cpu.max limits it to {} cores", threads,
        quota);
  };
  for (const auto& [cores, threads, expected] :
       {Row{{.allowed = 8}, 8, "none"}, Row{{.allowed = 8, .quota = 2.0}, 2, "none"},
        Row{{.allowed = 2}, 8, on_2}, Row{{.allowed = 2, .quota = 4.0}, 8, on_2},
        Row{{.allowed = 2, .quota = 2.0}, 8, on_2},
        Row{{.allowed = 8, .quota = 2.5}, 8, limited(8, "2.5") + "; try train.threads=2"},
        Row{{.allowed = 4, .quota = 2.0}, 8, limited(8, "2.0") + "; try train.threads=2"},
        Row{{.allowed = 8, .quota = 0.5}, 1, limited(1, "0.5")}}) {
    CHECK(text_or_none(warning_about_cores(cores, threads)) == expected);
  }
}

TEST_CASE("other programs are reported if they leave too few cores for long enough") {
  struct Case {
    double seconds, all, own;  // between the measurements
    std::size_t cores, threads;
    const char* busy;  // as named; null: no warning
  };
  for (const Case& given : std::vector<Case>{
           {10, 20, 20, 2, 2, nullptr},       // only this process
           {10, 20, 10, 2, 1, nullptr},       // one core each
           {10, 20, 10, 2, 2, "1.0 of 2"},    // half of the time of each thread is lost
           {10, 20, 14.5, 2, 2, "0.6 of 2"},  //
           {10, 20, 15.5, 2, 2, nullptr},     // less than half a core
           {10, 20, 0, 2, 1, "2.0 of 2"},     // not even one core is free
           {10, 20, 7, 2, 1, nullptr},        //
           {10, 40, 1, 8, 4, nullptr},        // four of eight cores are free
           {10, 60, 20, 8, 4, nullptr},       //
           {10, 65, 20, 8, 4, nullptr},       //
           {10, 66, 20, 8, 4, "4.6 of 8"},    //
           {10, 10, 20, 2, 2, nullptr},       // the clocks of process and system differ
           {5, 10, 5, 2, 2, "1.0 of 2"},      //
           {4.9, 9.8, 4.9, 2, 2, nullptr},    // too short to be sure
           {0, 0, 0, 2, 2, nullptr},          //
       }) {
    CAPTURE(given.all);
    CAPTURE(given.own);
    const ProcessorTime before{.now = 100, .all = 1000, .own = 50};
    const ProcessorTime after{.now = before.now + given.seconds,
                              .all = before.all + given.all,
                              .own = before.own + given.own};
    CHECK(text_or_none(warning_about_other_programs(before, after, given.cores, given.threads)) ==
          (given.busy == nullptr
               ? "none"
               : fmt::format("warning: threads: {}, but other programs keep {} cores busy and slow "
                             "the run down",
                             given.threads, given.busy)));
  }
}

TEST_CASE("processor time includes user and kernel mode of the available cores") {
  // user nice system idle iowait irq softirq steal guest guest_nice
  const std::string stat =
      "cpu  1111 22220 333300 9 9 9 9 9 9 9\n"
      "cpu0 1 20 300 9 9 9 9 9 9 9\n"
      "cpu1 1000 20000 300000 9 9 9 9 9 9 9\n"
      "cpu10 10 200 3000 9 9 9 9 9 9 9\n"
      "intr 12 3 4 5\nctxt 7\n";
  CHECK(busy_ticks(stat, {0}, false) == 301);
  CHECK(busy_ticks(stat, {0, 1}, false) == 301301);
  CHECK(busy_ticks(stat, {10}, false) == 3010);
  CHECK(busy_ticks(stat, {0}, true) == 321);
  CHECK_FALSE(busy_ticks(stat, {0, 2}, false));
  CHECK_FALSE(busy_ticks(stat, {}, false));
  CHECK_FALSE(busy_ticks("", {0}, false));
  CHECK_FALSE(busy_ticks("cpu0 1 20\n", {0}, false));
}

TEST_CASE("the processor time of this process is included in that of all") {
  const auto before = read_processor_time();
  if (!before) return;  // a system without /proc/stat
  double sum = 0.0;
  while (read_processor_time()->own - before->own < 0.5) sum += std::sqrt(sum + 1.0);
  const auto after = read_processor_time();
  CHECK(after->now - before->now > 0.4);
  CHECK(after->all - before->all > 0.3);  // counted in ticks
  CHECK(std::isfinite(sum));
}

TEST_CASE("cpu.max is microseconds in each period, or no limit") {
  CHECK(cores_of_cpu_max("150000 100000\n") == 1.5);
  CHECK(cores_of_cpu_max("max 100000\n") == no_limit);
  for (const char* unreadable : {"", "what", "100000", "100000 0", "0 100000"}) {
    CAPTURE(unreadable);
    CHECK(cores_of_cpu_max(unreadable) == no_limit);
  }
}

TEST_CASE("the tightest quota of a control group and those above it counts") {
  const test::TemporaryFolder root;
  std::filesystem::create_directories(root / "a/b");
  CHECK(cpu_quota(root.path(), "/a/b") == no_limit);
  std::ofstream(root / "a/b/cpu.max") << "400000 100000";
  CHECK(cpu_quota(root.path(), "/a/b") == 4.0);
  std::ofstream(root / "a/cpu.max") << "300000 100000";
  CHECK(cpu_quota(root.path(), "/a/b") == 3.0);
  std::ofstream(root / "cpu.max") << "200000 100000";
  CHECK(cpu_quota(root.path(), "/a/b") == 2.0);
  CHECK(cpu_quota(root.path(), "/") == 2.0);
  std::ofstream(root / "cpu.max") << "max 100000";
  CHECK(cpu_quota(root.path(), "/") == no_limit);
}

TEST_CASE("a quota that cannot be read is unlimited") {
  const test::TemporaryFolder root;
  std::filesystem::create_directories(root / "cpu.max");  // opens, and fails when it is read
  CHECK(cpu_quota(root.path(), "/") == no_limit);
}

/// A build that leaves products to an OpenBLAS that takes a new processor for an old one.
Blas slow_blas() {
  return {.used = true, .core = "Prescott", .core_is_set = false, .wider_vectors_exist = true};
}

TEST_CASE("a BLAS with kernels for much older processors is reported, with a remedy") {
  Blas blas = slow_blas();
  CHECK(text_or_none(warning_about_blas(blas)) ==
        "warning: OpenBLAS uses kernels for Prescott, several times slower than this processor "
        "supports; install a newer one (Debian: libopenblas0-pthread)");
  blas.core_is_set = true;
  CHECK(text_or_none(warning_about_blas(blas)) ==
        "warning: OpenBLAS uses kernels for Prescott, several times slower than this processor "
        "supports; unset OPENBLAS_CORETYPE");
}

TEST_CASE("a BLAS that fits the processor, or is not used, raises no warning") {
  Blas blas = slow_blas();
  for (const char* core : {"Haswell", "SkylakeX", "Zen", "neoversen1"}) {
    CAPTURE(core);
    blas.core = core;
    CHECK(text_or_none(warning_about_blas(blas)) == "none");
  }
  blas = slow_blas();
  blas.used = false;
  CHECK(text_or_none(warning_about_blas(blas)) == "none");
  blas = slow_blas();
  blas.wider_vectors_exist = false;
  CHECK(text_or_none(warning_about_blas(blas)) == "none");
}

TEST_CASE("this machine can be read") {
  const Cores cores = read_cores();
  CHECK(cores.allowed >= 1);
  CHECK(cores.quota > 0.0);
  CHECK(read_blas().used == !read_blas().core.empty());
}

constexpr std::uint64_t no_memory_limit = AvailableMemory::no_limit;
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
  check(read_available_memory(nothing.path()), no_memory_limit, no_memory_limit, "");
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
  CHECK(memory.total < no_memory_limit);
}

struct EndOfProcess {
  int status = 0;    ///< as waitpid() has it
  std::string said;  ///< on standard error
};

/// Result of a process that is told its exit code and then terminated.
EndOfProcess end_of(void (*terminated)()) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    ::dup2(ends[1], STDERR_FILENO);
    end_with_code_without_memory(8);
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

TEST_CASE("termination without an exception or by bad_alloc is reported as lack of memory") {
  for (void (*terminated)() : {+[]() noexcept { std::terminate(); }, &lack_memory}) {
    const EndOfProcess end = end_of(terminated);
    CHECK(WIFEXITED(end.status));
    CHECK(WEXITSTATUS(end.status) == 8);
    CHECK(end.said ==
          "tapestry: error: the system has no more memory\n"
          "hint: end other programs or give it more memory (see `ulimit -v`)\n");
  }
}

TEST_CASE("an uncaught exception ends a program as usual") {
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
