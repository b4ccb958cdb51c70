#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

namespace tapestry {

/// Asks on `questions` for the kind of task, the data files and the size of the model, and reads
/// one answer a line from `answers`; an empty line takes the default that the question shows.
/// Returns the text of a config file at `path`, with a comment for each key, which load_config()
/// accepts. Paths in answers start at the working directory, those of the text at the folder of
/// `path`.
///
/// throws  UsageError if the answers end before the questions; ConfigError.
std::string ask_for_config(const std::filesystem::path& path, std::istream& answers,
                           std::ostream& questions);

}  // namespace tapestry
