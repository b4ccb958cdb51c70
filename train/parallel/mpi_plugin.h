#pragma once

#include <chrono>

#include "train/parallel/transport.h"

/// What libtapestry_mpi.so defines: the only code that calls MPI, in a shared object of its own, so
/// that the program runs on machines without MPI.
namespace tapestry {

/// Connects this process with the others that the launcher has started. The caller owns the
/// transport, whose destructor waits for the others to be destroyed. Until then a watchdog ends all
/// processes if one does not answer for `limit`.
using JoinProcesses = Transport*(std::chrono::seconds limit);

/// The symbol of a function of type JoinProcesses.
inline constexpr const char* plugin_function = "tapestry_join_processes";
/// The symbol of a `const char*`: the version of the program that the plugin belongs to.
inline constexpr const char* plugin_version = "tapestry_plugin_version";

}  // namespace tapestry
