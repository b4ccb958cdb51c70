// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"

namespace tapestry {

/// Parses the YAML `text`, then applies `overrides` of the form `section.key=value` in order.
/// Quoted and unquoted values in the YAML text are equivalent. The value of an override is used
/// literally, including quotes. Relative paths in overrides are resolved against the working
/// directory.
///
/// name    file name in error messages
/// throws  ConfigError with all errors.
Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<std::string>& overrides = {});

/// Reads a config file and parses it with parse_config(). Then
///
///   - makes relative paths of data absolute: paths in the file are resolved against
///     `data.folder`, or the folder of the config file if that key is empty; paths in overrides
///     against the working directory
///   - sets `train.run_dir` to the directory of the file if it is the `config.yaml` of a run, even
///     if the run was moved, unless an override sets it
///   - sets an empty `train.run_dir` to default_run_dir().
///
/// throws  ConfigError like read_config_file() and parse_config(), and if the name of the file
///         cannot be the name of a run directory.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});

/// `config` as YAML text with every key except the custom keys of other kinds. parse_config() of
/// the text gives the same config.
std::string dump_config(const Config& config);

/// The default run directory of a config file: `runs/<file name without extension>`.
std::string default_run_dir(const std::string& path);

/// Whether an override sets train.run_dir.
bool names_run_dir(const std::vector<std::string>& overrides);

/// Maximum size of a config in bytes. Larger files are rejected before they are parsed.
inline constexpr std::size_t max_config_size = 1u << 20;

/// Reads the text of a config file. Never blocks, since it rejects pipes and devices without
/// reading them.
///
/// throws  ConfigError if the file is missing, unreadable, not a regular file or too large.
std::string read_config_file(const std::string& path);

}  // namespace tapestry
