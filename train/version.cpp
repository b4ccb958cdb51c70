#include "train/version.h"

namespace tapestry {

const char* const program_version = TAPESTRY_VERSION;

}  // namespace tapestry
