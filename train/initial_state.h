#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "layers/model.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config/config.h"
#include "train/storage/snapshot.h"
#include "train/tasks/task.h"

namespace tapestry {

/// A file of a corpus that is not as it was.
struct FileChange {
  std::string key;   ///< of the config
  std::string what;  ///< a sentence about the file
};

/// The files of a corpus that are other than when a run began, those that it did not have and those
/// that are missing.
std::vector<FileChange> changes_between(const DataIdentity& before, const Corpus& corpus);

/// The data that a run goes on with.
struct ResumedCorpus {
  Corpus corpus;
  std::vector<std::string> changes;  ///< what the user let change, a line each, for the history
};

/// Loads the corpus of a run that goes on. Files are known by their content: they may have moved,
/// but have to hold what they held, unless their keys are in `allowed`; then the words of the run
/// stay those it has.
///
/// throws  DataError naming each file that differs, or if the same files now give other data;
///         CheckpointError.
ResumedCorpus load_same_corpus(const Config& config, const Snapshot& snapshot,
                               const std::vector<std::string>& allowed);

/// The model of a checkpoint. Needs nothing but the snapshot. throws CheckpointError as restore().
TrainedModel load_model(const Snapshot& snapshot);

/// The data of a new run, and the pretrained model that `train.initialize_from` names, if any.
struct InitialState {
  std::optional<TrainedModel> model;
  Corpus corpus;  ///< in the vocabulary of that model
};

/// throws  CheckpointError, DataError.
InitialState load_initial_state(const Config& config);

/// The data of a trained model as they are now, in the words and classes that it knows. Files may
/// have changed since, what ids mean has not; a changed training file is warned of on standard
/// error.
///
/// throws  DataError, also for a label that is none of its classes.
Corpus load_corpus_for(const TrainedModel& trained);

/// Copies the parameters of `from` that have name and shape of one of `to`, converted to its
/// element type, but for those of a head that tells other classes. Returns lines for the user: what
/// was loaded, what is new, what was left.
///
/// origin   names `from`
/// targets  the words or classes that `to` predicts
/// throws   CheckpointError if there is none to copy; nothing has changed then
std::vector<std::string> load_pretrained(const TrainedModel& from, const std::string& origin,
                                         const Vocabulary& targets, Model& to);

}  // namespace tapestry
