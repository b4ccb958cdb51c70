// SPDX-License-Identifier: BSD-3-Clause
#include "train/system/background_task.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/guarded_memory.h"

namespace tapestry {
namespace {

TEST_CASE("a task runs on another thread, which has all signals blocked") {
  BackgroundTask task;
  std::thread::id id;
  sigset_t blocked{};
  CHECK(task.start([&] {
    id = std::this_thread::get_id();
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  }));
  task.finish();
  CHECK(id != std::thread::id());
  CHECK(id != std::this_thread::get_id());
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGALRM}) {
    CHECK(sigismember(&blocked, signal) == 1);
  }
  sigset_t own{};
  pthread_sigmask(SIG_BLOCK, nullptr, &own);
  CHECK(sigismember(&own, SIGTERM) == 0);
}

TEST_CASE("start() returns while the task runs, and finish() waits for it") {
  BackgroundTask task;
  std::atomic<bool> may_end = false, has_ended = false;
  CHECK(task.has_ended());
  task.start([&] {
    may_end.wait(false);
    has_ended = true;
  });
  CHECK_FALSE(task.has_ended());
  CHECK(task.time() > BackgroundTask::Clock::duration(0));
  may_end = true;
  may_end.notify_one();
  task.finish();
  CHECK(has_ended);
  CHECK(task.has_ended());
  CHECK(task.time() == task.time());
}

TEST_CASE("finish() throws the exception of the task once, and another task can start") {
  BackgroundTask task;
  task.finish();  // does nothing without a task
  task.start([] { throw std::runtime_error("x"); });
  CHECK_THROWS_AS(task.finish(), std::runtime_error);
  task.finish();
  int done = 0;
  task.start([&] { ++done; });
  task.finish();
  task.run_here([] { throw std::logic_error("y"); });
  CHECK(task.has_ended());
  CHECK_THROWS_AS(task.finish(), std::logic_error);
  CHECK(done == 1);
}

TEST_CASE("captures of a task are destroyed when it ends, before finish()") {
  BackgroundTask task;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  task.start([held = std::move(held)] {});
  while (!task.has_ended()) std::this_thread::yield();
  CHECK(watched.expired());
  task.finish();
}

TEST_CASE("the destructor waits for the task") {
  bool done = false;
  {
    BackgroundTask task;
    task.start([&] { done = true; });
  }
  CHECK(done);
}

#if !defined(TAPESTRY_ASAN) && !defined(TAPESTRY_TSAN)
/// Makes the creation of threads in this process fail.
void reject_threads() {
  static std::vector<std::jthread> idle;
  idle.reserve(64);
  const rlimit no_more{1, 1};
  ::setrlimit(RLIMIT_AS, &no_more);  // the stacks of ended threads remain available; use them up:
  try {
    while (idle.size() < 64) idle.emplace_back([] { ::pause(); });
  } catch (const std::system_error&) {
  }
}

TEST_CASE("if no thread can be created, a task is done before start() returns" *
          doctest::skip(test::is_guarded_run())) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    reject_threads();
    BackgroundTask task;
    bool done = false, thrown = false;
    const bool in_background = task.start([&] { done = true; });
    const bool done_at_once = done;
    task.finish();
    task.start([] { throw 1; });
    try {
      task.finish();
    } catch (int) {
      thrown = true;
    }
    ::_exit(!in_background && done_at_once && thrown ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

}  // namespace
}  // namespace tapestry
