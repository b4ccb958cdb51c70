// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "train/parallel/process_group.h"

namespace tapestry {

/// The launcher (mpirun, mpiexec, srun) that started this process, according to the environment.
struct Launch {
  std::string launcher;       ///< the environment variable with the number of processes
  std::size_t processes = 1;  ///< number of processes that the launcher started, >= 2
};

/// The launch of this process; nullopt without a launcher or for a single process. Read from the
/// first of OMPI_COMM_WORLD_SIZE (Open MPI), PMI_SIZE (MPICH, Intel MPI, Slurm with PMI-2) and
/// SLURM_STEP_NUM_TASKS (srun) that is a number.
///
/// get  returns the value of a variable, or null, like std::getenv
std::optional<Launch> read_launch(const std::function<const char*(const char*)>& get);

/// The limit of TAPESTRY_PEER_TIMEOUT, in seconds; 60 s if the variable is not set.
///
/// text    value of the variable, or null
/// throws  UsageError unless it is a whole number from 1 to 86400.
std::chrono::seconds read_peer_timeout(const char* text);

/// The group of all processes that the launcher started, or of this process only. Loads MPI only
/// for several processes, from libtapestry_mpi.so next to the program or in ../lib/tapestry.
///
/// The processes stay connected until the program ends, and then wait for each other. A watchdog
/// ends all processes if a process does not answer for TAPESTRY_PEER_TIMEOUT seconds.
///
/// throws  UsageError if there are several processes and MPI cannot be loaded, or if MPI connects a
///         different number of processes.
ProcessGroup& join_processes();

/// Call this in a `catch` clause if this process fails: when the program ends, after it has printed
/// the error, MPI_Abort ends all processes with the exit code of the error. Ranks above 0 first
/// wait a moment, because rank 0 often fails for the same reason and prints the error; then they
/// print which process has failed. Does nothing in a group of one process.
void abort_all_at_exit();

}  // namespace tapestry
