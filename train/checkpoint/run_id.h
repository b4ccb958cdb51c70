// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "data/corpus.h"
#include "layers/model.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"

/// The id of a run, which its checkpoints and its config.yaml record.
namespace tapestry {

/// The id of a new run: 16 hexadecimal digits. It is a digest of the data, the pretrained
/// parameters and all config keys that may not change freely on resume, except paths. It is
/// deterministic, so that two runs with the same config and data write the same bytes. A resumed
/// run keeps its id, even if its config has changed.
///
/// pretrained  model whose parameters the run starts from (train.initialize_from); may be null
std::string make_run_id(const Config& config, const Corpus& corpus,
                        const Model* pretrained = nullptr);

/// The first line of a run's `config.yaml`, a comment with its id.
std::string run_id_line(std::string_view run_id);

/// The id in the first line of a config file; nullopt if the file is missing or has no id.
std::optional<std::string> read_run_id(const std::filesystem::path& config_file);

/// The id in the `config.yaml` of a run directory; nullopt if the file is missing or has no id.
std::optional<std::string> recorded_run_id(const RunDirectory& directory);

}  // namespace tapestry
