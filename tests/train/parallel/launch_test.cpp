#include "train/parallel/launch.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <thread>

#include "tests/train/parallel/local_network.h"
#include "train/error.h"
#include "train/parallel/supervisor.h"
#include "train/parallel/watchdog.h"

namespace tapestry {
namespace {

using namespace std::chrono_literals;

std::optional<Launch> launch_of(const std::map<std::string, std::string>& environment) {
  return read_launch([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST_CASE("mpirun and srun set the number of processes in environment variables") {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    CAPTURE(name);
    const auto launch = launch_of({{name, "4"}});
    REQUIRE(launch);
    CHECK(launch->processes == 4);
    CHECK(launch->launcher == name);
    CHECK_FALSE(launch_of({{name, "1"}}));
    CHECK_FALSE(launch_of({{name, "many"}}));
  }
  // mpirun of one process, or of three, in a Slurm job of two machines.
  CHECK_FALSE(launch_of({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}));
  const auto three = launch_of({{"OMPI_COMM_WORLD_SIZE", "3"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  REQUIRE(three);
  CHECK(three->processes == 3);
  for (const auto& [size, rank] :
       std::map<std::string, std::string>{{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                          {"PMI_SIZE", "PMI_RANK"},
                                          {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}) {
    const auto launch = launch_of({{size, "4"}, {rank, "3"}});
    REQUIRE(launch);
    CHECK(launch->rank == 3);
  }
  CHECK_FALSE(launch_of({}));
  CHECK_FALSE(launch_of({{"SLURM_NTASKS", "4"}}));  // in a job script, outside of srun
}

TEST_CASE("TAPESTRY_PEER_TIMEOUT is a number of seconds, 60 by default") {
  CHECK(read_peer_timeout(nullptr) == 60s);
  CHECK(read_peer_timeout("") == 60s);
  CHECK(read_peer_timeout("1") == 1s);
  CHECK(read_peer_timeout("86400") == 86400s);
  for (const char* text : {"0", "86401", "ten", "5s", "-1", "1.5"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(read_peer_timeout(text), UsageError);
  }
}

// The thread sanitizer does not follow a process forked from one with several threads.
#if !defined(TAPESTRY_TSAN)
/// How a supervisor with a limit of one second ends.
struct SupervisorEnd {
  int code = 0;
  std::string message;
};

SupervisorEnd supervise(const std::function<void(SupervisedState& state)>& process) {
  std::FILE* const output = std::tmpfile();
  REQUIRE(output != nullptr);
  const pid_t supervisor = ::fork();
  REQUIRE(supervisor >= 0);
  if (supervisor == 0) {
    ::dup2(::fileno(output), STDERR_FILENO);
    process(continue_supervised(3, 1s));
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(supervisor, &status, 0) == supervisor);
  REQUIRE(WIFEXITED(status));
  SupervisorEnd end{.code = WEXITSTATUS(status), .message = ""};
  std::rewind(output);
  for (int next = std::fgetc(output); next != EOF; next = std::fgetc(output)) {
    end.message += static_cast<char>(next);
  }
  std::fclose(output);
  return end;
}

using Phase = SupervisedState::Phase;

TEST_CASE("a supervisor ends with the exit code of the program, also that of a bug") {
  for (const int code : {0, 1, 5, 124, 143}) {
    const SupervisorEnd end = supervise([code](SupervisedState& state) {
      state.has_result = true;
      ::_exit(code);
    });
    CHECK(end.code == code);
    CHECK(end.message.empty());
  }
  const SupervisorEnd aborted = supervise([](SupervisedState& state) {
    state.phase = Phase::running;
    state.leave();
    ::_exit(5);  // by Transport::abort()
  });
  CHECK(aborted.code == 5);
  CHECK(aborted.message.empty());
}

TEST_CASE("a supervisor exits with 9 if a library or a signal ends the process") {
  for (const int code : {0, 1, 2, 8, 17, 255}) {
    const SupervisorEnd end = supervise([code](SupervisedState& state) {
      state.step = 7;
      ::_exit(code);
    });
    CHECK(end.code == 9);
    CHECK(end.message.find("error: rank 3 on ") != end.message.npos);
    CHECK(end.message.find(fmt::format("with exit code {}, after step 7", code)) !=
          end.message.npos);
  }
  const SupervisorEnd ended_while_joining = supervise([](SupervisedState& state) {
    state.leave();  // by the destructors that exit() calls
    ::_exit(2);
  });
  CHECK(ended_while_joining.code == 9);
  const SupervisorEnd killed = supervise([](SupervisedState&) { ::raise(SIGKILL); });
  CHECK(killed.code == 9);
  CHECK(killed.message.find("was ended by signal 9") != killed.message.npos);
}

TEST_CASE(
    "a supervisor exits with 128 + n after a signal n that it passed on, also before another") {
  const SupervisorEnd end = supervise([](SupervisedState&) {
    std::signal(SIGTERM, SIG_DFL);
    sigset_t both, pending;
    sigemptyset(&both);
    for (const int signal : {SIGTERM, SIGCONT}) sigaddset(&both, signal);
    ::sigprocmask(SIG_BLOCK, &both, nullptr);
    for (const int signal : {SIGTERM, SIGCONT}) {
      ::kill(::getppid(), signal);
      do ::sigpending(&pending);
      while (sigismember(&pending, signal) != 1);
    }
    ::sigprocmask(SIG_UNBLOCK, &both, nullptr);
  });
  CHECK(end.code == 128 + SIGTERM);
  CHECK(end.message.empty());
}

TEST_CASE("a supervisor ends a process that takes too long to join or leave the others") {
  for (const Phase phase : {Phase::joining, Phase::leaving}) {
    const SupervisorEnd end = supervise([phase](SupervisedState& state) {
      state.phase = phase;
      ::sleep(60);
    });
    CHECK(end.code == 9);
    CHECK(end.message.find(phase == Phase::joining
                               ? "to be connected with the other processes"
                               : "to be disconnected from the other") != end.message.npos);
  }
}

TEST_CASE("a supervisor does not limit the time of a running process") {
  const SupervisorEnd end = supervise([](SupervisedState& state) {
    state.phase = Phase::running;
    ::sleep(4);
    state.has_result = true;
    ::_exit(6);
  });
  CHECK(end.code == 6);
}
#endif

/// What watchdogs have raised an alarm about.
struct Alarms {
  std::atomic<int> right = 0, wrong = 0;

  Watchdog::Alarm expecting(std::size_t rank) {
    return [this, rank](const Watchdog::Timeout& timeout) {
      ++(timeout.rank == rank ? right : wrong);
    };
  }
};

TEST_CASE("rank 0 names a process that sends no heartbeats") {
  test::LocalNetwork network(3);
  const std::atomic<std::uint64_t> step = 7;
  Alarms alarms;
  {
    const Watchdog first(network.end(0), 400ms, step, alarms.expecting(2));
    // Rank 0 sends no heartbeats either once it has raised its alarm.
    const Watchdog second(network.end(1), 400ms, step, [](const Watchdog::Timeout&) {});
    while (alarms.right + alarms.wrong == 0) std::this_thread::sleep_for(10ms);
  }
  CHECK(alarms.right == 1);
  CHECK(alarms.wrong == 0);
}

TEST_CASE("the other processes name rank 0 if it sends no heartbeats") {
  test::LocalNetwork network(3);
  const std::atomic<std::uint64_t> step = 7;
  Alarms alarms;
  {
    const Watchdog second(network.end(1), 400ms, step, alarms.expecting(0));
    const Watchdog third(network.end(2), 400ms, step, alarms.expecting(0));
  }
  CHECK(alarms.right == 2);
  CHECK(alarms.wrong == 0);
}

TEST_CASE("a process that has ended while others still work raises an alarm") {
  for (const std::size_t ended : {0, 1}) {
    CAPTURE(ended);
    test::LocalNetwork network(2);
    const std::atomic<std::uint64_t> step = 7;
    std::atomic<bool> is_named = false;
    std::thread ending([&] {
      const Watchdog watchdog(network.end(ended), 400ms, step, [](const Watchdog::Timeout&) {});
    });
    const Watchdog working(network.end(1 - ended), 400ms, step,
                           [&](const Watchdog::Timeout& timeout) {
                             is_named = timeout.rank == ended && timeout.has_ended;
                           });
    const auto began = std::chrono::steady_clock::now();
    while (!is_named && std::chrono::steady_clock::now() - began < 10s) {
      std::this_thread::sleep_for(10ms);
    }
    CHECK(is_named);
    // In the place of the alarm, which ends the process.
    const std::uint64_t goodbye = ~std::uint64_t{0};
    network.end(1 - ended).start_send(ended, Transport::Channel::heartbeat,
                                      std::as_bytes(std::span(&goodbye, 1)));
    ending.join();
  }
}

TEST_CASE("processes that end one after the other raise no alarm") {
  test::LocalNetwork network(3);
  const std::atomic<std::uint64_t> step = 7;
  std::atomic<int> alarms = 0;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const Watchdog watchdog(network.end(rank), 2000ms, step,
                              [&](const Watchdog::Timeout&) { ++alarms; });
      std::this_thread::sleep_for(100ms * rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(alarms == 0);
}

}  // namespace
}  // namespace tapestry
