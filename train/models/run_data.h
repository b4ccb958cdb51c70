// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/checkpoint/array_store.h"
#include "train/config/config.h"
#include "train/tasks/task.h"

namespace tapestry {

/// The corpus of a resumed run.
struct ResumedCorpus {
  Corpus corpus;
  std::vector<std::string> changes;  ///< permitted changes for the history, one per line
};

/// Loads the corpus of a resumed run. Files are identified by content: they may have moved, but
/// their content must be unchanged unless their keys are in `allowed`. The vocabulary of the run is
/// kept even if files change. Its subword files may be missing; existing subword files must be
/// unchanged.
///
/// throws  DataError with each file that differs, or if unchanged files give different data;
///         CheckpointError.
ResumedCorpus load_same_corpus(const Config& config, const ArrayStore& arrays,
                               const std::vector<std::string>& allowed);

/// The data that a command needs with a trained model.
enum class DataUse {
  scores,   ///< scores of the validation or test set, if the config has one
  examples  ///< some examples of any set
};

/// Loads the data files of a trained model in their current state, encoded with the model's
/// vocabularies and classes. Files may have changed since training; a changed training file that is
/// read causes a warning on standard error.
///
/// Leaves sets whose files cannot be opened empty if `use` allows it; warns if they are held-out
/// sets. DataUse::scores reads training files only if examples are held out of them, to avoid
/// tokenizing all training data.
///
/// overrides  data.KEY=FILE, as given to with_other_data(); these files must exist
/// throws     DataError, for example for a label that is not one of the model's classes.
Corpus load_corpus_for(const TrainedModel& trained, DataUse use,
                       const std::vector<std::string>& overrides = {});

}  // namespace tapestry
