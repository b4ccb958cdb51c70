#include "tests/support/source_folder.h"

namespace tapestry::testing {

std::filesystem::path source_folder() { return TAPESTRY_SOURCE_DIR; }

}  // namespace tapestry::testing
