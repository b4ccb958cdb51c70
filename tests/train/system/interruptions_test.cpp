// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "data/example_file.h"
#include "data/io/durable_file.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "train/system/interruptions.h"

namespace tapestry {
namespace {

volatile std::sig_atomic_t caught_by_test = 0;
void catch_in_test(int signal) { caught_by_test = signal; }

TEST_CASE("each signal that requests an end is recorded") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR2, SIGXCPU}) {
    CAPTURE(signal);
    const RunSignals signals;
    CHECK(signals.stop() == 0);  // the signal of the previous object is discarded
    CHECK_FALSE(signals.end_requested());
    std::raise(signal);
    CHECK(signals.stop() == signal);
    CHECK(signals.end_requested());
  }
}

TEST_CASE("SIGXCPU, which is repeated every second, does not end the process") {
  const RunSignals signals;
  std::raise(SIGXCPU);
  std::raise(SIGXCPU);
  CHECK(signals.stop() == SIGXCPU);
}

TEST_CASE("the last call of end_at() sets the time") {
  using Clock = std::chrono::steady_clock;
  const auto before = std::signal(SIGALRM, catch_in_test);
  {
    RunSignals signals;
    signals.end_at(Clock::now() + std::chrono::hours(1));
    CHECK_FALSE(signals.time_is_up());
    signals.end_at(Clock::now() - std::chrono::hours(1));
    while (!signals.time_is_up()) ::usleep(100);
    CHECK(signals.end_requested());
    CHECK(signals.stop() == 0);
  }
  CHECK_FALSE(RunSignals().time_is_up());
  const bool restored = std::signal(SIGALRM, before) == catch_in_test;
  CHECK(restored);
}

// The thread sanitizer runs no signal handlers in a child forked from a process with several
// threads, and earlier tests may have started threads. tests/train/program/stop_test.cpp covers
// this case.
#if !defined(TAPESTRY_TSAN)
/// Runs an action in a child process. Returns its status from waitpid().
int status_of(const std::function<void()>& action) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    action();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

TEST_CASE("a second signal to this process ends it, even after stop_by()") {
  const std::vector<std::pair<std::function<void(RunSignals&)>, int>> rows{
      {[](RunSignals&) { std::raise(SIGTERM), std::raise(SIGINT); }, SIGINT},
      {[](RunSignals& signals) {
         signals.stop_by(SIGTERM);
         std::raise(SIGINT);
         std::raise(SIGINT);
       },
       SIGINT},
      {[](RunSignals& signals) {
         std::raise(SIGTERM);
         signals.stop_by(SIGTERM);
         std::raise(SIGTERM);
       },
       SIGTERM}};
  for (const auto& [receive, signal] : rows) {
    // clang 14 cannot capture a structured binding.
    const int status = status_of([&receive = receive] {
      RunSignals signals;
      receive(signals);
    });
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
  }
}

TEST_CASE("the first signal to this process after stop_by() does not end it") {
  const int status = status_of([] {
    RunSignals signals;
    signals.stop_by(SIGTERM);
    ::usleep(1'200'000);
    std::raise(SIGTERM);
    ::_exit(signals.stop());
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == SIGTERM);
}

/// The exit code of a child process that calls `prepare` and receives `signal` while it writes
/// folder/x; -n if signal n ended it. Checks that no temporary file is left.
int code_while_writing(int signal, const std::function<void()>& prepare) {
  const test::TemporaryFolder folder;
  const int status = status_of([&] {
    static_cast<void>(std::freopen("/dev/null", "w", stderr));
    std::signal(signal, SIG_DFL);  // doctest handles some signals
    prepare();
    TemporaryFile file(folder / "x");
    std::raise(signal);
    std::raise(signal);
  });
  CHECK(std::filesystem::is_empty(folder.path()));
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST_CASE("a signal that ends the process deletes the file that is being written") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR2, SIGXCPU}) {
    CAPTURE(signal);
    CHECK(code_while_writing(signal, handle_signals_of_program) == -signal);
    CHECK(code_while_writing(signal, [] { new RunSignals(true, true); }) == 128 + signal);
    if (signal == SIGXCPU) continue;  // the system repeats SIGXCPU
    CHECK(code_while_writing(signal, [] { new RunSignals(); }) == -signal);
    CHECK(code_while_writing(signal, [] { (new RunSignals(true, true))->start_run(); }) == -signal);
  }
}

TEST_CASE("from the start of the program, SIGUSR1 is remembered for the run") {
  const int status = status_of([] {
    handle_signals_of_program();
    std::raise(SIGUSR1);
    RunSignals signals(true, true);
    signals.start_run();
    ::_exit(signals.take_save_request() ? 3 : 4);
  });
  CHECK(WEXITSTATUS(status) == 3);
}

TEST_CASE("an example file that becomes shorter while it is mapped ends the process with code 3") {
  const test::TemporaryFolder folder;
  const auto write = [&](std::size_t examples) {
    ExampleFileWriter writer(folder / "x", 10);
    for (std::size_t i = 0; i < examples; ++i) writer.add({.source = {4, 5}, .target = {6}}, i);
    writer.finish(1, {examples}, {});
  };
  write(100'000);
  const int status = status_of([&] {
    static_cast<void>(std::freopen((folder / "err").c_str(), "w", stderr));
    handle_signals_of_program();
    const ExampleFile file(folder / "x", 1, 10);
    std::filesystem::resize_file(folder / "x", 4096);
    Example example;
    for (std::size_t i = 0; i < file.size(); ++i) file.read(i, example);
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
  std::ifstream err(folder / "err");
  const std::string printed{std::istreambuf_iterator<char>(err), {}};
  CHECK(test::contains(printed, "found a shorter file"));
}
#endif

TEST_CASE("a request for a save is returned once and does not request an end") {
  RunSignals signals;
  CHECK_FALSE(signals.take_save_request());
  std::raise(SIGUSR1);
  std::raise(SIGUSR1);
  CHECK(signals.take_save_request());
  CHECK_FALSE(signals.take_save_request());
  CHECK(signals.stop() == 0);
}

TEST_CASE("signals of failed writes are ignored") {
  const RunSignals signals;
  std::raise(SIGPIPE);
  std::raise(SIGXFSZ);
  CHECK(signals.stop() == 0);
}

TEST_CASE("the destructor restores the signal handlers") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGPIPE, SIGXFSZ}) {
    CAPTURE(signal);
    const auto before = std::signal(signal, catch_in_test);
    { const RunSignals signals; }
    caught_by_test = 0;
    std::raise(signal);
    CHECK(caught_by_test == signal);
    std::signal(signal, before);
  }
}

TEST_CASE("an ignored signal, such as SIGHUP under nohup, remains ignored") {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    const RunSignals signals;
    std::raise(SIGHUP);
    CHECK(signals.stop() == 0);
  }
  const bool still_ignored = std::signal(SIGHUP, before) == SIG_IGN;
  CHECK(still_ignored);
}

}  // namespace
}  // namespace tapestry
