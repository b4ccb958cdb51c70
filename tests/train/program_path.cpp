#include "tests/train/program_path.h"

namespace tapestry::test {

const char* program_path() { return TAPESTRY_PROGRAM; }

}  // namespace tapestry::test
