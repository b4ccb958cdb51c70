#pragma once

#include <cstdint>

#include "data/corpus.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config/config.h"

/// What the reports that a run writes itself cost, see train.report_every.
namespace tapestry {

/// The number of reports of a run from its first step: after every `train.report_every`-th
/// validation, and when all steps are done.
std::uint64_t count_reports(const TrainOptions& options);

/// The seconds that a report of a model takes: loading the model, held-out examples, accuracy,
/// attention and the page; without the curves and the time of the disk. Outputs of a model that is
/// not trained do not end; they are decoded up to the mean length of the references.
double time_report(const ArrayStore& snapshot, const Corpus& corpus);

}  // namespace tapestry
