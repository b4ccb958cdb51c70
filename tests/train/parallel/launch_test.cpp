// SPDX-License-Identifier: BSD-3-Clause
#include "train/parallel/launch.h"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <string>

#include "train/base/error.h"

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
  // mpirun starts one process, or three, in a Slurm job of two machines.
  CHECK_FALSE(launch_of({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}));
  const auto three = launch_of({{"OMPI_COMM_WORLD_SIZE", "3"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  REQUIRE(three);
  CHECK(three->processes == 3);
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

}  // namespace
}  // namespace tapestry
