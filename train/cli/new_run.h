#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"

/// What `train` and `plan` do before a new run: its config, and whether its directory is free.
namespace tapestry {

/// Reads the config of a new run, and applies its process settings to this process.
///
/// throws  ConfigError as load_config(); if the config is a copy of the config of a run and names
///         the directory of that run.
Config load_new_config(const std::string& path, const std::vector<std::string>& overrides);

/// Completes the config of a new run once its data are known: train.epochs becomes train.steps.
///
/// throws  ConfigError as resolve_epochs(); if the config could not be read back from a checkpoint;
///         as require_validation_for_patience().
void complete_new_config(const std::string& path, const Corpus& corpus, Config& config);

/// throws  ConfigError if the run would stop by validations that it cannot have.
void require_validation_for_patience(const Config& config, const Corpus& corpus);

/// throws  ConfigError if the directory has a run, or other files that are not those of a run.
void refuse_to_replace_run(const RunDirectory& directory);
void refuse_to_replace_files(const RunDirectory& directory);

}  // namespace tapestry
