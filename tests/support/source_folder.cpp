// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/source_folder.h"

namespace tapestry::test {

std::filesystem::path source_folder() { return TAPESTRY_SOURCE_DIR; }

}  // namespace tapestry::test
