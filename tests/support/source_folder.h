// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

namespace tapestry::test {

/// Where the sources of the project are, whose shipped files tests read.
std::filesystem::path source_folder();

}  // namespace tapestry::test
