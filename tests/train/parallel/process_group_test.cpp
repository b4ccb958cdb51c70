// SPDX-License-Identifier: BSD-3-Clause
#include "train/parallel/process_group.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "autograd/anomaly.h"
#include "autograd/kernels/parallel.h"
#include "tests/train/parallel/local_network.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

TEST_CASE("all_gather() gives all processes their results in the order of their ranks") {
  for (std::size_t size = 1; size <= 9; ++size) {
    std::atomic<std::size_t> right = 0;
    test::run_processes(size, [&, size](ProcessGroup& group) {
      const auto results = group.all_gather(
          [&] { return std::string(group.rank() * 100, static_cast<char>('a' + group.rank())); });
      bool all = results.size() == size;
      for (std::size_t rank = 0; rank < results.size(); ++rank) {
        all = all && results[rank] == std::string(rank * 100, static_cast<char>('a' + rank));
      }
      if (all) ++right;
    });
    CHECK_MESSAGE(right == size, size);
  }
}

TEST_CASE("work of rank 0 runs once, and all processes get its result before they continue") {
  std::atomic<int> asked = 0, done = 0, right = 0;
  test::run_processes(5, [&](ProcessGroup& group) {
    const std::string answer = group.broadcast([&] {
      ++asked;
      return fmt::format("from {}", group.rank());
    });
    group.on_rank_0([&] { ++done; });
    if (answer == "from 0" && done == 1) ++right;
  });
  CHECK(asked == 1);
  CHECK(done == 1);
  CHECK(right == 5);
}

TEST_CASE("any_process() is true in all processes if one of them passes true") {
  std::atomic<int> yes = 0;
  test::run_processes(5, [&](ProcessGroup& group) {
    if (group.any_process(group.rank() == 3)) ++yes;
    if (group.any_process(false)) yes += 100;
  });
  CHECK(yes == 5);
}

/// The exception that each process of a group throws: its type, and the message of an Error.
std::vector<std::string> thrown_by(std::size_t size,
                                   const std::function<void(ProcessGroup& group)>& process) {
  std::vector<std::string> thrown(size);
  test::run_processes(size, [&](ProcessGroup& group) {
    std::string& own = thrown[group.rank()];
    try {
      process(group);
    } catch (const kernels::Cancelled&) {
      own = "cancelled";
    } catch (const AnomalyError& error) {
      own = fmt::format("anomaly: {}", error.what());
    } catch (const PeerFailure& error) {
      own = fmt::format("{}: {}", static_cast<int>(error.exit_code()), error.what());
    }
  });
  return thrown;
}

TEST_CASE("a process that is cancelled, or finds an anomaly, interrupts all processes") {
  for (const std::size_t anomalies : {0, 1}) {
    std::atomic<int> abandoned = 0;
    const auto thrown = thrown_by(4, [&](ProcessGroup& group) {
      group.all_gather(
          [&]() -> std::string {
            if (group.rank() == 2) throw kernels::Cancelled();
            if (group.rank() == 1 && anomalies > 0) throw AnomalyError("nan");
            return "";
          },
          [&] { ++abandoned; });
    });
    CHECK(abandoned == 4);
    for (const std::string& each : thrown) {
      CHECK(each == (anomalies > 0 ? "anomaly: nan" : "cancelled"));
    }
  }
}

TEST_CASE("a process group remains usable after a cancelled exchange") {
  std::atomic<int> done = 0;
  test::run_processes(3, [&](ProcessGroup& group) {
    try {
      group.together([&] {
        if (group.rank() == 1) throw kernels::Cancelled();
      });
    } catch (const kernels::Cancelled&) {
      if (group.any_process(group.rank() == 2)) ++done;
    }
  });
  CHECK(done == 3);
}

TEST_CASE("an error is thrown immediately in its process, without waiting for other processes") {
  test::LocalNetwork network(2);
  ProcessGroup group(network.end(1));
  CHECK_THROWS_AS(group.together([] { throw OutputError("disk: full", ""); }), OutputError);
}

TEST_CASE("processes that call different functions end with an error that names the functions") {
  const auto thrown = thrown_by(3, [](ProcessGroup& group) {
    group.together([] {});
    if (group.rank() == 1) {
      group.any_process(true);
    } else {
      group.together([] {});
    }
  });
  for (const std::string& each : thrown) {
    CHECK(each.starts_with("9: rank 1: found a call of any_process, expected together"));
  }
}

}  // namespace
}  // namespace tapestry
