#pragma once

#include <string_view>

#include "train/config/config.h"

namespace tapestry {

/// Applies train.threads, train.kernels and train.matmul to this process.
///
/// saved  the arithmetic() of the checkpoint that is resumed, which `auto` follows as far as this
///        machine can; empty for a new run
void apply_process_settings(const TrainOptions& options, std::string_view saved = "");

}  // namespace tapestry
