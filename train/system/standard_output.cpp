#include "train/system/standard_output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "train/error.h"

namespace tapestry {

void flush_standard_output() {
  errno = 0;
  const bool failed_now = std::fflush(stdout) != 0;
  if (!failed_now && std::ferror(stdout) == 0) return;
  const std::string reason = failed_now ? ": " + std::generic_category().message(errno) : "";
  throw OutputError(fmt::format("standard output: could not be written{}", reason),
                    "send it to a disk with free space, or to a program that reads all of it");
}

}  // namespace tapestry
