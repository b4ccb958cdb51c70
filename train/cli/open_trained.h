// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/checkpoint/open_run.h"
#include "train/config/config.h"
#include "train/tasks/task.h"

namespace tapestry {

/// Whether a MODEL argument names a trained model instead of a config file.
bool is_run_or_checkpoint(const std::filesystem::path& path);

/// A trained model without its data.
struct OpenedModel {
  TrainedModel trained;
  ModelOrigin origin;
};

/// Opens the model of a run directory or checkpoint. `overrides` may replace data files and keys of
/// the section decoding.
///
/// throws  ConfigError like with_other_data(); CheckpointError.
OpenedModel open_trained(const std::string& path, const std::vector<std::string>& overrides = {});

/// Prints on standard error which checkpoint of a run is used, unless it is the newest. Call this
/// function if the output of the command does not name the checkpoint.
void announce(const ModelOrigin& origin);

/// Opens and announces the model of a run directory or checkpoint. Throws like open_trained().
TrainedModel open_and_announce(const std::string& path);

/// The kinds of models that `translate` and `score` accept: kinds whose LineCommand decodes.
std::vector<std::string> kinds_that_decode();

/// throws  ConfigError naming `command` if the model is not of one of these kinds.
void require_kind(const TrainedModel& trained, const std::vector<std::string>& kinds,
                  std::string_view command);

/// The config of a trained model with other data files or decoding options. Overrides of data files
/// name files that have moved, or other data for the model.
///
/// path       names the model in errors
/// overrides  data.KEY=FILE, decoding.KEY=VALUE; relative paths are resolved against the working
///            directory
/// throws     ConfigError if an override
///            - sets another key, since all other keys must match the trained parameters
///            - names no file
///            - would change which examples are held out of the training file, since the model may
///              have been trained on them.
Config with_other_data(const std::string& path, const Config& trained,
                       const std::vector<std::string>& overrides);

}  // namespace tapestry
