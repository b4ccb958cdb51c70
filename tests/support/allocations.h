#pragma once

#include <cstdint>

namespace tapestry::bench {

/// Calls of the global operator new so far, on all threads. A program that links this file counts
/// every one; memory that the kernels' pool takes from the system is not among them.
std::uint64_t calls_of_new();

}  // namespace tapestry::bench
