#pragma once

namespace tapestry::test {

/// The file of the program as it was built, absolute.
const char* program_path();

}  // namespace tapestry::test
