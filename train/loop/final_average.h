// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "data/corpus.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"
#include "train/loop/progress.h"

/// The average of the last checkpoints at the end of a run: train.average_last.
namespace tapestry {

/// Whether a finished run still needs its final average: its process was stopped before writing it,
/// or train.average_last was set or changed later. A damaged average, or an average made with
/// another value of train.average_last, counts as missing.
///
/// step  last step of the run
bool lacks_final_average(const RunDirectory& directory, const Config& config, std::uint64_t step);

/// Whether a finished run has a final average although train.average_last is 0, because the key was
/// set to 0 later. Commands still use this average.
bool has_unwanted_average(const RunDirectory& directory, const Config& config, std::uint64_t step);

/// Averages the checkpoints of steps_to_average(), validates the average, writes it to
/// RunDirectory::average_path() and reports it to `progress`. The config stored with the average
/// has the train.average_last of `config`. Checkpoints that were not saved, were not kept or cannot
/// be used are left out with a warning.
///
/// step    step of the newest checkpoint, which is the last step of the run
/// throws  OutputError if the average cannot be written; kernels::Cancelled.
void write_final_average(const RunDirectory& directory, const Config& config, const Corpus& corpus,
                         std::uint64_t step, Progress& progress);

}  // namespace tapestry
