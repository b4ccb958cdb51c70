// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <iosfwd>

#include "tests/bench/problems.h"

namespace tapestry::bench {

/// Lets another program train the same model on the same batch and time the steps of both programs
/// alternately.
///
/// Writes numbers in row-major order and native byte order into `directory`, which must exist:
///
///     model.json       {"problem": its sizes, "parameters": [{"name", "shape"}, ...]}
///     parameters.f32   the initial values of all parameters, concatenated
///     source.i32, target.i32, labels.i32   ids (batch, length); no source without an encoder
///
/// The first line of output is the loss of the batch without dropout. Every line of input is a
/// number of steps to run; a line of output has the times of these steps in seconds. At the end of
/// input, the last line of output is JSON: {"peak_memory": bytes of this process}.
///
/// throws  std::runtime_error if a file cannot be written, ValueError for a line that is not a
///         whole number > 0.
void serve(const Problem& problem, const std::filesystem::path& directory, std::istream& input,
           std::ostream& output);

}  // namespace tapestry::bench
