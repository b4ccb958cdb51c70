// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/config/config.h"

/// Reads the config of a new run, and checks the settings that depend on its data or on the number
/// of processes.
namespace tapestry {

/// Reads the config of a new run, and applies its process settings to this process.
///
/// throws  ConfigError, see load_config(); also if the file is a copy of a run's config.yaml and
///         still names the directory of that run.
Config load_new_config(const std::string& path, const std::vector<std::string>& overrides);

/// Completes the config of a new run once its data are known: train.epochs becomes train.steps.
///
/// path    of the config file, for errors
/// throws  ConfigError, see resolve_epochs(); also if the config could not be read back from a
///         checkpoint; if train.patience is set but there is no validation set.
void complete_new_config(const std::string& path, const Corpus& corpus, Config& config);

/// throws  ConfigError if a process would have nothing to compute, because a step has fewer
///         micro-batches (train.accumulate) than there are processes.
void require_work_for_all(std::size_t processes, const Config& config);

/// throws  ConfigError if train.patience is set but there is no validation set.
void require_validation_for_patience(const Config& config, const Corpus& corpus);

}  // namespace tapestry
