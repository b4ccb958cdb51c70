// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"

namespace tapestry {

/// Reads the YAML `text`, then `overrides` of the form `section.key=value`; later overrides replace
/// earlier ones. `name` is the file name in error messages. A quoted value in the YAML text means
/// the same as an unquoted one; the value of an override is taken literally, quotes included. A
/// relative path in an override starts at the working directory.
///
/// throws  ConfigError with all problems.
Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<std::string>& overrides = {});

/// Reads a config file as parse_config() does. Relative paths to data become absolute: paths in the
/// file start at `data.folder`, or else at the folder of the config file, paths in overrides at the
/// working directory. An empty `train.run_dir` becomes default_run_dir(). The `config.yaml` in a
/// run directory means the run in that directory, also after it was moved, unless an override
/// names another.
///
/// throws  ConfigError as read_config_file() and parse_config(); if no name of a run
///         directory can be derived from the name of the file.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});

/// `config` as YAML text with every key except the custom keys of other kinds; parse_config() of it
/// gives the same config.
std::string dump_config(const Config& config);

/// The default run directory of a config file: `runs/<file name without extension>`.
std::string default_run_dir(const std::string& path);

/// Whether an override sets train.run_dir.
bool names_run_dir(const std::vector<std::string>& overrides);

/// The size of the largest config in bytes; a larger one is rejected before it is read.
inline constexpr std::size_t max_config_size = 1u << 20;

/// The text of the config file `path`. Never blocks: pipes and devices are rejected, not read.
///
/// throws  ConfigError if the file is missing, unreadable, not a regular file or too large.
std::string read_config_file(const std::string& path);

}  // namespace tapestry
