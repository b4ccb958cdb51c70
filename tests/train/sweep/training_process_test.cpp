#include "train/sweep/training_process.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <system_error>
#include <thread>

#include "tests/support/temporary_folder.h"
#include "train/platform/interruptions.h"

/// TrainingProcess executes the program that it is part of: here, these tests.
namespace tapestry {
namespace {

using test::TemporaryFolder;

constexpr const char* endless_case = "--test-case=helper of other tests: a process that waits";

/// Skipped unless another test executes it. Ends by itself in case that test has failed.
TEST_CASE("helper of other tests: a process that waits" * doctest::skip()) {
  std::this_thread::sleep_for(std::chrono::seconds(20));
}

int exit_code(TrainingProcess& process) {
  std::optional<int> code;
  while (!(code = process.poll())) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return *code;
}

TEST_CASE("a training process that is stopped while it starts ends") {
  const TemporaryFolder folder;
  const RunSignals signals;  // whose handlers a new process inherits
  for (int i = 0; i < 3; ++i) {
    TrainingProcess process({endless_case, "--no-skip"}, folder / "errors");
    process.stop();
    CHECK(exit_code(process) == 128 + SIGTERM);
  }
  CHECK(signals.stop() == 0);
}

TEST_CASE("a training process has its exit code where SIGCHLD is ignored") {
  const TemporaryFolder folder;
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  TrainingProcess process({endless_case, "--no-skip"}, folder / "errors");
  process.stop();
  CHECK(exit_code(process) == 128 + SIGTERM);
  std::signal(SIGCHLD, before);
}

TEST_CASE("the lost exit code of a training process is an error") {
  const TemporaryFolder folder;
  TrainingProcess process({"--version"}, folder / "errors");
  REQUIRE(::waitpid(-1, nullptr, 0) > 0);
  CHECK_THROWS_AS(process.poll(), std::system_error);
  process.wait();  // no longer waits for anything
}

}  // namespace
}  // namespace tapestry
