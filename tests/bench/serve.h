// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <iosfwd>

#include "tests/bench/problems.h"

namespace tapestry::bench {

/// Lets another program train the same model on the same batch, and time both alternately.
///
/// Into `directory`, which exists, go numbers in row-major order and this machine's byte order:
///
///     model.json       {"problem": its sizes, "parameters": [{"name", "shape"}, ...]}
///     parameters.f32   the initial values of all parameters, one after the other
///     source.i32, target.i32, labels.i32   ids (batch, length); no source without an encoder
///
/// The first line of output is the loss of the batch without dropout. Every line of input is a
/// number of steps; they are run, and their times in seconds are a line of output. The end of input
/// is answered by a line of JSON: {"peak_memory": bytes of this process}.
///
/// throws  std::runtime_error if a file cannot be written, ValueError for a line that is no whole
///         number > 0.
void serve(const Problem& problem, const std::filesystem::path& directory, std::istream& input,
           std::ostream& output);

}  // namespace tapestry::bench
