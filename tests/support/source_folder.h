// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

namespace tapestry::test {

/// The root folder of the project's sources, for tests that read files of the project.
std::filesystem::path source_folder();

}  // namespace tapestry::test
