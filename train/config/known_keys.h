// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "train/config/config.h"

namespace tapestry {

/// The valid keys of a config file.
struct KnownKeys {
  /// As in the file; missing and invalid keys have their defaults.
  Config config;
  std::set<std::string, std::less<>> given{};  ///< `section.key`, with a valid value
  /// The first line of load_config()'s error, if any, and the number of further problems.
  std::string problem{};
};

/// Reads what this program knows in a config file that another program, or another version, may
/// have written. Contradictions between keys are not searched for.
///
/// throws  ConfigError if the file cannot be read or has more than Diagnostics::max_size
///         problems.
KnownKeys load_known_keys(const std::string& path);

/// The value of model.kind in a config if it is not registered here, such as a custom model of
/// another program; nullopt if it is registered or the text cannot be read.
std::optional<std::string> unknown_model_kind(std::string_view text);

}  // namespace tapestry
