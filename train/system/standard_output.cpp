#include "train/system/standard_output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "train/error.h"

namespace tapestry {

void flush_standard_output(int error_before) {
  errno = 0;
  const bool failed_now = std::fflush(stdout) != 0;
  if (!failed_now && std::ferror(stdout) == 0) return;
  const int error = error_before != 0 ? error_before : failed_now ? errno : 0;
  const std::string reason = error == 0 ? "" : ": " + std::generic_category().message(error);
  throw OutputError(
      fmt::format("standard output: could not be written{}", reason),
      error == EPIPE ? "its reader ended before it had all; nothing else is wrong"
                     : "send it to a disk with free space, or to a program that reads all of it");
}

}  // namespace tapestry
