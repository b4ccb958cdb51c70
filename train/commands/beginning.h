#pragma once

#include <optional>

#include "data/corpus.h"
#include "train/checkpoint.h"
#include "train/config.h"

namespace tapestry {

/// What a new run begins with: its data and, if `train.initialize_from` names one, a trained model.
struct Beginning {
  std::optional<TrainedModel> model;
  ParallelCorpus corpus;  ///< with the words of that model
};

/// throws  CheckpointError, DataError.
Beginning begin_with(const Config& config);

/// The data of a trained model, as its run had them.
ParallelCorpus load_corpus_of(const TrainedModel& trained);

}  // namespace tapestry
