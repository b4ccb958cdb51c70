#pragma once

namespace tapestry {

/// "0.1.0"
extern const char* const program_version;

}  // namespace tapestry
