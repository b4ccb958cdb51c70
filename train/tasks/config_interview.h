// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

namespace tapestry {

/// Asks on `questions` for the kind of task, the data files and the size of the model, and reads
/// the data to choose lengths, held-out sets and the number of steps. Reads one answer per line
/// from `answers`; an empty line selects the default that the question shows. Paths in answers are
/// relative to the working directory.
///
/// returns  the text of a valid config file for `path`, with a comment for each key. Its paths are
///          relative to the folder of `path`.
/// throws   UsageError if the answers end before the questions; DataError, ConfigError.
std::string ask_for_config(const std::filesystem::path& path, std::istream& answers,
                           std::ostream& questions);

}  // namespace tapestry
