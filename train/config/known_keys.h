// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "train/config/config.h"

namespace tapestry {

/// The keys of a config file that this program knows.
struct KnownKeys {
  /// The values in the file; missing and invalid keys have their defaults.
  Config config;
  std::set<std::string, std::less<>> given{};  ///< keys with a valid value, `section.key`
  /// The first line of the first error and the number of further errors; empty if there are no
  /// errors.
  std::string problem{};
};

/// Reads a config file that a different program or version may have written. Does not check for
/// contradictions between keys.
///
/// throws  ConfigError if the file cannot be read or has more than Diagnostics::max_size problems.
KnownKeys load_known_keys(const std::string& path);

/// The value of model.kind in a config if this program has not registered it, such as a custom
/// model of another program; nullopt if it is registered or the text cannot be read.
std::optional<std::string> unknown_model_kind(std::string_view text);

}  // namespace tapestry
