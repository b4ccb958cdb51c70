// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace tapestry {

/// Installs a terminate handler that reports that the process has run out of memory and exits with
/// `code`. It handles an uncaught std::bad_alloc, and a termination without an active exception,
/// which happens if memory for an exception object cannot be allocated. Call it at the start of a
/// program.
void set_out_of_memory_exit_code(int code);

/// Ends the process with this exit code. Under `ulimit -v`, calls no exit handlers: a thread of
/// OpenBLAS that lacks address space never ends, and the handler of OpenBLAS waits for it.
[[noreturn]] void end_process(int code);

/// Prepares for starting threads under small limits. Each thread gets a stack of at least 1 MiB,
/// which libhdf5 needs, even under a smaller `ulimit -s`. Under `ulimit -v`, all threads share one
/// malloc arena: glibc would otherwise use a whole page for each allocation of a thread whose arena
/// does not fit into the address space. Call it at the start of a program, before starting threads.
void prepare_threads_for_limits();

}  // namespace tapestry
