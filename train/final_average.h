#pragma once

#include <cstdint>

#include "data/corpus.h"
#include "train/config/config.h"
#include "train/progress.h"
#include "train/storage/run_directory.h"

/// The average of the last checkpoints with which a run ends: train.average_last.
namespace tapestry {

/// Whether a run that has ended after `step` has no such average yet, although its config asks for
/// one: its process was stopped before, or the key was set later. A damaged average counts as none; one of another number of
/// checkpoints counts.
bool lacks_final_average(const RunDirectory& directory, const Config& config, std::uint64_t step);

/// Averages the checkpoints of steps_to_average(), validates the average, writes it as
/// RunDirectory::average_path() and reports it to `progress`. A checkpoint that was not saved is
/// left out, and so is one that cannot be used, with a warning.
///
/// step    of the newest checkpoint of the run, with which it has ended
/// throws  OutputError if the average cannot be written; kernels::Cancelled.
void write_final_average(const RunDirectory& directory, const Config& config, const Corpus& corpus,
                         std::uint64_t step, Progress& progress);

}  // namespace tapestry
