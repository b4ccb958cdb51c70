// SPDX-License-Identifier: BSD-3-Clause
#include "train/system/cores.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace tapestry {
namespace {

const double no_limit = std::numeric_limits<double>::infinity();

std::string text_or_none(const std::optional<std::string>& warning) {
  return warning.value_or("none");
}

TEST_CASE("if threads exceed the cores or the quota, a warning names the lower limit") {
  const std::string on_2 = "warning: threads: 8 on 2 cores; try train.threads=2";
  struct Row {
    Cores cores;
    std::size_t threads;
    std::string expected;
  };
  const auto limited = [](std::size_t threads, const char* quota) {
    return fmt::format(
        "warning: threads: {}, but cpu.max of the control group allows only {} cores", threads,
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

TEST_CASE("a warning names the load of other programs if they leave too few cores free") {
  struct Case {
    double seconds, all, own;  // differences between the measurements
    std::size_t cores, threads;
    const char* busy;  // in the message; null: no warning
  };
  for (const Case& given : std::vector<Case>{
           {10, 20, 20, 2, 2, nullptr},       // only this process computes
           {10, 20, 10, 2, 1, nullptr},       // this process and others use one core each
           {10, 20, 10, 2, 2, "1.0 of 2"},    // half of the time of each thread is lost
           {10, 20, 14.5, 2, 2, "0.6 of 2"},  //
           {10, 20, 15.5, 2, 2, nullptr},     // others use less than half a core
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

TEST_CASE("CPU time counts user and kernel mode on the available cores") {
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

TEST_CASE("the CPU time of all programs includes this process") {
  const auto before = read_processor_time();
  if (!before) return;  // a system without /proc/stat
  double sum = 0.0;
  while (read_processor_time()->own - before->own < 0.5) sum += std::sqrt(sum + 1.0);
  const auto after = read_processor_time();
  CHECK(after->now - before->now > 0.4);
  CHECK(after->all - before->all > 0.3);  // CPU time is counted in ticks
  CHECK(std::isfinite(sum));
}

TEST_CASE("cpu.max contains microseconds per period, or no limit") {
  CHECK(cores_of_cpu_max("150000 100000\n") == 1.5);
  CHECK(cores_of_cpu_max("max 100000\n") == no_limit);
  for (const char* unreadable : {"", "what", "100000", "100000 0", "0 100000"}) {
    CAPTURE(unreadable);
    CHECK(cores_of_cpu_max(unreadable) == no_limit);
  }
}

TEST_CASE("the quota is the minimum over a control group and its parents") {
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
  std::filesystem::remove(root / "cpu.max");
  std::filesystem::create_directories(root / "cpu.max");  // can be opened, but not read
  CHECK(cpu_quota(root.path(), "/") == no_limit);
}

TEST_CASE("the cores of this machine can be read") {
  const Cores cores = read_cores();
  CHECK(cores.allowed >= 1);
  CHECK(cores.quota > 0.0);
}

}  // namespace
}  // namespace tapestry
