// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "data/corpus.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"
#include "train/loop/progress.h"

/// The average of the last checkpoints at the end of a run: train.average_last.
namespace tapestry {

/// Whether a run that has ended after `step` has no such average yet, although its config asks for
/// one: its process was stopped before, or the key was set or changed later. A damaged average
/// counts as none, and so does one that was made with another value of train.average_last.
bool lacks_final_average(const RunDirectory& directory, const Config& config, std::uint64_t step);

/// Whether such a run has an average although its config asks for none: train.average_last was set
/// to 0 later. Commands still use it.
bool has_unwanted_average(const RunDirectory& directory, const Config& config, std::uint64_t step);

/// Averages the checkpoints of steps_to_average(), validates the average, writes it as
/// RunDirectory::average_path() and reports it to `progress`. Its config has the train.average_last
/// of `config`. A checkpoint that does not exist, because it was not saved or not kept, is left
/// out, and so is one that cannot be used; both with a warning.
///
/// step    of the newest checkpoint of the run, its last step
/// throws  OutputError if the average cannot be written; kernels::Cancelled.
void write_final_average(const RunDirectory& directory, const Config& config, const Corpus& corpus,
                         std::uint64_t step, Progress& progress);

}  // namespace tapestry
