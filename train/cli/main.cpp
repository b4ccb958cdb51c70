// SPDX-License-Identifier: BSD-3-Clause
#include "train/base/error.h"
#include "train/cli/program.h"
#include "train/system/interruptions.h"
#include "train/system/memory.h"

namespace {

/// Runs before the static initializers of this program, because these may also run out of memory.
[[gnu::constructor(101)]] void prepare_for_limits_and_signals() {
  tapestry::set_out_of_memory_exit_code(static_cast<int>(tapestry::ExitCode::memory));
  tapestry::prepare_threads_for_limits();
  tapestry::handle_signals_of_program();
}

}  // namespace

int main(int argc, char** argv) {
  tapestry::end_process(tapestry::run_program(argc, argv, {.name = "tapestry"}));
}
