#pragma once

#include <cstdio>
#include <string>

namespace tapestry {

/// A line on standard error, for commands whose standard output is what they were asked for.
inline void warn(const std::string& warning) {
  const std::string line = "tapestry: warning: " + warning + '\n';
  std::fputs(line.c_str(), stderr);  // fmt::print throws where nobody can read it
}

}  // namespace tapestry
