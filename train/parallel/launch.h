// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "train/parallel/process_group.h"

namespace tapestry {

/// How the environment says that a launcher (mpirun, mpiexec, srun) started this process.
struct Launch {
  std::string launcher;       ///< the variable that says so
  std::size_t processes = 1;  ///< number of processes of the launcher, >= 2
};

/// The launch of this process; nullopt if it was started by itself or as the only process. Read
/// from the first of OMPI_COMM_WORLD_SIZE (Open MPI), PMI_SIZE (MPICH, Intel MPI, Slurm with PMI-2)
/// and SLURM_STEP_NUM_TASKS (srun) that is a number.
///
/// get  returns the value of a variable, or null, as std::getenv
std::optional<Launch> read_launch(const std::function<const char*(const char*)>& get);

/// The limit of TAPESTRY_PEER_TIMEOUT, in seconds; 60 s if the variable is not set.
///
/// text    its value, or null
/// throws  UsageError unless it is a whole number from 1 to 86400.
std::chrono::seconds read_peer_timeout(const char* text);

/// The group of all processes that the launcher has started, or of this process only. MPI is
/// loaded for several processes only, from libtapestry_mpi.so next to the program or in
/// ../lib/tapestry.
///
/// The processes stay connected until the program ends: then each waits for the others. A watchdog
/// ends all of them if one does not answer for TAPESTRY_PEER_TIMEOUT seconds.
///
/// throws  UsageError if there are several processes and MPI cannot be loaded, or connects another
///         number of them.
ProcessGroup& join_processes();

/// Call this in a `catch` clause if this process fails: when the program ends, after it has printed
/// the error, MPI_Abort ends all processes with the exit code of the error. Ranks above 0
/// wait a moment before, because rank 0 often fails for the same reason and then prints it, and
/// print which process fails. Does nothing in a group of one process.
void abort_all_at_exit();

}  // namespace tapestry
