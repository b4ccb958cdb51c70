// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/parallel.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/threads.h"

namespace tapestry::kernels {
using test::Threads;

TEST_CASE("every piece runs once, on 1, 2 and 8 threads") {
  for (const std::size_t threads : {1, 2, 8}) {
    const Threads count(threads);
    for (const std::size_t pieces : {0, 1, 2, 7, 100}) {
      CAPTURE(threads);
      CAPTURE(pieces);
      std::vector<std::atomic<int>> runs(pieces);
      parallel_for(pieces, [&](std::size_t i) { ++runs[i]; });
      for (const auto& n : runs) CHECK(n == 1);
    }
  }
}

TEST_CASE("all pieces have finished when parallel_for returns") {
  const Threads count(8);
  std::atomic<int> ended = 0;
  parallel_for(64, [&](std::size_t) {
    std::this_thread::yield();
    ++ended;
  });
  CHECK(ended == 64);
}

TEST_CASE("a cancellation flag ends a loop in its scope, on 1 and 8 threads") {
  for (const std::size_t threads : {1, 8}) {
    const Threads count(threads);
    CAPTURE(threads);
    std::atomic<bool> flag = false;
    std::atomic<int> runs = 0;
    const auto set_flag_in_first = [&](std::size_t) {
      ++runs;
      flag = true;
    };
    {
      const CancellationScope scope(&flag);
      CHECK_THROWS_AS(parallel_for(10'000, set_flag_in_first), Cancelled);
      CHECK(runs < 10'000);
      CHECK_THROWS_AS(parallel_for(1, set_flag_in_first), Cancelled);
      CHECK_THROWS_AS(throw_if_cancelled(), Cancelled);
      {
        const UncancellableScope outer;
        { const UncancellableScope inner; }
        CHECK_NOTHROW(parallel_for(100, [](std::size_t) {}));
      }
      CHECK_THROWS_AS(throw_if_cancelled(), Cancelled);
      flag = false;
      CHECK_NOTHROW(parallel_for(1, [](std::size_t) {}));
    }
    flag = true;
    runs = 0;
    parallel_for(100, set_flag_in_first);
    CHECK(runs == 100);
    const CancellationScope without_flag(nullptr);
    CHECK_NOTHROW(throw_if_cancelled());
  }
}

TEST_CASE("a nested parallel_for runs its pieces once, in order, on the thread of its caller") {
  for (const std::size_t threads : {1, 2, 8}) {
    const Threads count(threads);
    std::vector<std::vector<std::size_t>> order(5);
    std::atomic<int> elsewhere = 0;
    parallel_for(5, [&](std::size_t i) {
      const auto here = std::this_thread::get_id();
      parallel_for(10, [&](std::size_t j) {
        elsewhere += std::this_thread::get_id() != here;
        order[i].push_back(j);
      });
    });
    for (const auto& inner : order) {
      CHECK(inner == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    }
    // With one thread, the outer call is not parallel, but no other thread exists.
    CHECK(elsewhere == 0);
  }
}

TEST_CASE("two threads of the program may run kernels at the same time") {
  const Threads count(2);
  std::atomic<int> sum = 0;
  const auto work = [&] {
    for (int repeat = 0; repeat < 50; ++repeat) parallel_for(10, [&](std::size_t) { ++sum; });
  };
  std::thread other(work);
  work();
  other.join();
  CHECK(sum == 1000);
}

TEST_CASE("parallel_for rethrows the exception of a piece once, and the pool remains usable") {
  for (const std::size_t threads : {1, 4}) {
    CAPTURE(threads);
    const Threads count(threads);
    for (const std::size_t bad : {0, 7, 15}) {
      const auto throw_at_bad = [&](std::size_t i) {
        if (i == bad) throw std::runtime_error("piece " + std::to_string(i));
      };
      CHECK_THROWS_WITH_AS(parallel_for(16, throw_at_bad), ("piece " + std::to_string(bad)).c_str(),
                           std::runtime_error);
      std::atomic<int> ended = 0;
      CHECK_NOTHROW(parallel_for(16, [&](std::size_t) { ++ended; }));
      CHECK(ended == 16);
    }
  }
}

TEST_CASE("parallel_for throws one of the exceptions if every piece throws") {
  for (const std::size_t threads : {1, 4}) {
    const Threads count(threads);
    const auto fail = [](std::size_t) { throw std::runtime_error("no"); };
    test::check_error<std::runtime_error>("no", [&] { parallel_for(16, fail); });
    CHECK_NOTHROW(parallel_for(16, [](std::size_t) {}));
  }
}

TEST_CASE("num_threads() returns the number that was set, but at least 1") {
  const Threads count(3);
  CHECK(num_threads() == 3);
  set_num_threads(0);
  CHECK(num_threads() >= 1);
}

TEST_CASE("num_threads() may exceed max_threads, but threads_at_work() may not") {
  const Threads count(max_threads + 1);
  CHECK(num_threads() == max_threads + 1);
  CHECK(threads_at_work() == max_threads);
  set_num_threads(5);
  CHECK(threads_at_work() == 5);
}

#if !defined(TAPESTRY_ASAN) && !defined(TAPESTRY_TSAN)
TEST_CASE("set_num_threads(): if the system starts fewer threads, they do all the work" *
          doctest::skip(test::is_guarded_run())) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit no_more{1, 1};
    ::setrlimit(RLIMIT_AS, &no_more);  // no memory for thread stacks
    set_num_threads(256);
    std::atomic<int> ended = 0;
    parallel_for(400, [&](std::size_t) { ++ended; });
    parallel_for(400, [&](std::size_t) { ++ended; });
    const bool right = ended == 800 && num_threads() == 256 && threads_at_work() < 256;
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

TEST_CASE("ranges cover [0, n) without overlap and do not depend on the number of threads") {
  const auto collect_ranges = [](std::size_t n, std::size_t per_piece) {
    std::set<std::pair<std::size_t, std::size_t>> ranges;
    std::mutex mutex;
    parallel_ranges(n, per_piece, [&](std::size_t begin, std::size_t end) {
      const std::lock_guard lock(mutex);
      ranges.insert({begin, end});
    });
    return ranges;
  };
  using Ranges = std::set<std::pair<std::size_t, std::size_t>>;
  for (const std::size_t threads : {1, 2, 8}) {
    const Threads count(threads);
    CHECK(collect_ranges(10, 4) == Ranges{{0, 4}, {4, 8}, {8, 10}});
    CHECK(collect_ranges(8, 4) == Ranges{{0, 4}, {4, 8}});
    CHECK(collect_ranges(0, 4).empty());
    CHECK(collect_ranges(3, 0) == Ranges{{0, 1}, {1, 2}, {2, 3}});
  }
}

TEST_CASE("rows are divided into pieces of one or more rows with about equal numbers of elements") {
  const auto pieces_of = [](std::size_t rows, std::size_t columns) {
    std::atomic<std::size_t> pieces = 0, covered = 0;
    parallel_rows(rows, columns, [&](std::size_t begin, std::size_t end) {
      ++pieces;
      covered += end - begin;
    });
    CHECK(covered == rows);
    return pieces.load();
  };
  CHECK(pieces_of(64, 512) == 2);
  CHECK(pieces_of(5, 2 * elements_per_piece) == 5);
  CHECK(pieces_of(5, 0) == 1);
  CHECK(pieces_of(0, 10) == 0);
}

}  // namespace tapestry::kernels
