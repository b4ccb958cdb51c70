#pragma once

#include <filesystem>

namespace tapestry::testing {

/// Where the sources of the project are, whose shipped files tests read.
std::filesystem::path source_folder();

}  // namespace tapestry::testing
