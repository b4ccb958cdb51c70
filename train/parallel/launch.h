#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/parallel/equal_processes.h"
#include "train/parallel/process_group.h"

namespace tapestry {

/// How the environment says that a launcher (mpirun, mpiexec, srun) started this process.
struct Launch {
  std::string launcher;       ///< the variable that says so
  std::size_t processes = 1;  ///< number of processes of the launcher, >= 2
  std::size_t rank = 0;       ///< of this process, until MPI says it; 0 if it is not known
};

/// The launch of this process; nullopt if it was started by itself or as the only process. Read
/// from the first of OMPI_COMM_WORLD_SIZE (Open MPI), PMI_SIZE (MPICH, Intel MPI, Slurm with PMI-2)
/// and SLURM_STEP_NUM_TASKS (srun) that is a number; the rank from OMPI_COMM_WORLD_RANK, PMI_RANK
/// and SLURM_PROCID.
///
/// get  returns the value of a variable, or null, as std::getenv
std::optional<Launch> read_launch(const std::function<const char*(const char*)>& get);

/// Runs the program in a group of all processes that the launcher has started, or in a group of
/// this process alone, and returns its exit code. MPI is loaded for several processes only, from
/// libtapestry_mpi.so beside the program or in ../lib/tapestry.
///
/// properties  what has to be the same in all processes for `program` to take the same decisions;
///             called and compared with several processes only, before anything else is exchanged
///
/// throws  UsageError if there are several processes and MPI cannot be loaded, or connects another
///         number of them; what `properties` and `program` throw, and PeerFailure if the
///         processes differ, in rank 0.
int run_launched_processes(const std::function<std::vector<EqualProperty>()>& properties,
                           const std::function<int(ProcessGroup& group)>& program);

}  // namespace tapestry
