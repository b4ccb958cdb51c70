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

/// A data file whose content has changed.
struct FileChange {
  std::string key;   ///< the config key of the file
  std::string what;  ///< one sentence about the change
};

/// The files of a corpus whose content differs from the saved digests, files that are new and files
/// that are missing.
std::vector<FileChange> changes_between(const DataIdentity& before, const Corpus& corpus);

/// The corpus of a resumed run.
struct ResumedCorpus {
  Corpus corpus;
  std::vector<std::string> changes;  ///< permitted changes, one line each, for the history
};

/// Loads the corpus of a resumed run. Files are identified by content: they may have moved, but
/// their content must be unchanged unless their keys are in `allowed`. The vocabulary of the run is
/// kept even if files change. Its subword files may be missing; existing ones must be unchanged.
///
/// throws  DataError naming each file that differs, or if unchanged files give different data;
///         CheckpointError.
ResumedCorpus load_same_corpus(const Config& config, const Snapshot& snapshot,
                               const std::vector<std::string>& allowed);

/// Restores the model of a checkpoint; the data files are not needed. throws CheckpointError as
/// restore().
TrainedModel load_model(const Snapshot& snapshot);

/// The data of a new run, and the pretrained model named by `train.initialize_from`, if any.
struct InitialState {
  std::optional<TrainedModel> model;
  Corpus corpus;  ///< encoded with the vocabulary of `model`, if there is one
};

/// throws  ConfigError if train.initialize_from names nothing, or a model of other input or words;
///         CheckpointError, DataError.
InitialState load_initial_state(const Config& config);

/// What a command does with the data of a trained model.
enum class DataUse {
  scores,   ///< needs a validation or a test set, if the config names one
  examples  ///< needs some examples of any set
};

/// Loads the data files of a trained model in their current state, encoded with the model's
/// vocabularies and classes. Files may have changed since training; a changed training file that is
/// read causes a warning on standard error.
///
/// Sets whose files cannot be opened are left empty if `use` allows it, with a warning if they are
/// held-out sets. If only scores are wanted and nothing is held out of the training files, these
/// are not read, which would tokenize all of them.
///
/// overrides  data.KEY=FILE, as given to with_other_data(); these files must exist
/// throws     DataError, also for a label that is not one of the model's classes.
Corpus load_corpus_for(const TrainedModel& trained, DataUse use,
                       const std::vector<std::string>& overrides = {});

/// Copies each parameter of `from` to the parameter of `to` with the same name and shape, converted
/// to the element type of `to`. A classification head is not copied if the classes of the two
/// models differ. Returns lines for the user: which parameters were loaded, which are new and which
/// were not used.
///
/// origin   names `from`
/// targets  the words or classes that `to` predicts
/// throws   ConfigError if no parameter can be copied; `to` is then unchanged
std::vector<std::string> load_pretrained(const TrainedModel& from, const std::string& origin,
                                         const Vocabulary& targets, Model& to);

}  // namespace tapestry
