#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/batch.h"
#include "data/corpus.h"
#include "layers/model.h"
#include "train/checkpoint/open_run.h"
#include "train/config/config.h"
#include "train/tasks/task.h"

namespace tapestry {

/// A configured model with what it is to learn, for commands that examine models.
struct ConfiguredModel {
  Config config;
  Corpus corpus;
  ModelOrigin origin;
  bool trained;                  ///< false for the initial values of a config
  std::unique_ptr<Model> model;  ///< float64

  /// The first pairs of the training set, at most `rows` of them; for copies of the model in
  /// another element type, see `with_dtype`.
  Batch first_batch(std::size_t rows) const;
  std::unique_ptr<Model> with_dtype(DType dtype) const;
};

/// The model that `path` stands for, in float64. A config file, with `overrides`: as training would
/// begin with it. A run directory or a checkpoint: with the trained weights; see open_trained().
///
/// throws  ConfigError, CheckpointError, DataError.
ConfiguredModel open_model(const std::string& path, const std::vector<std::string>& overrides);

/// Whether a MODEL stands for trained weights, and not for a config.
bool is_run_or_checkpoint(const std::filesystem::path& path);

/// A trained model without the data that it has learnt.
struct OpenedModel {
  TrainedModel trained;
  ModelOrigin origin;
};

/// The model of a run directory or a checkpoint, with the data files that `overrides` name, if any.
///
/// throws  ConfigError if there are other overrides; CheckpointError.
OpenedModel open_trained(const std::string& path, const std::vector<std::string>& overrides);

/// throws  UsageError naming `command` if the model is of none of these kinds.
void require_kind(const TrainedModel& trained, const std::vector<std::string>& kinds,
                  std::string_view command);

/// The config of a trained model with other files of data, which may have moved or be what the
/// model is now to be shown.
///
/// path       names the model in errors
/// overrides  data.KEY=FILE; relative paths start at the working folder
/// throws     ConfigError if a key is not that of a data file, as the rest of the config belongs to
///            the weights; if a file is left out, or another one would leave what is held out of
///            the training file to be cut from it anew: the model may have learnt from it.
Config with_other_data(const std::string& path, const Config& trained,
                       const std::vector<std::string>& overrides);

}  // namespace tapestry
