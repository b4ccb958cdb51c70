#pragma once

#include <optional>

#include "data/corpus.h"
#include "train/checkpoint.h"
#include "train/config/config.h"

namespace tapestry {

/// What a new run begins with: its data and, if `train.initialize_from` names one, a trained model.
struct Beginning {
  std::optional<TrainedModel> model;
  Corpus corpus;  ///< with the words of that model
};

/// throws  CheckpointError, DataError.
Beginning begin_with(const Config& config);

/// The data of a trained model as they are now, in the words and classes that it knows. Files may
/// have changed since, what ids mean has not; a changed training file is warned of on standard
/// error.
///
/// throws  DataError, also for a label that is none of its classes.
Corpus load_corpus_of(const TrainedModel& trained);

}  // namespace tapestry
