// SPDX-License-Identifier: BSD-3-Clause
#include "train/system/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/program.h"

namespace tapestry {
namespace {

/// Uses fputs, since fmt::print throws if standard error is closed.
void print_error_line(const std::string& text) {
  std::fputs((program_name() + ": " + escaped_lines(text) + '\n').c_str(), stderr);
}

/// The disposition of SIGPIPE when the program was started.
void (*broken_pipe_action)(int) = SIG_IGN;

}  // namespace

void end_on_broken_pipe() { std::signal(SIGPIPE, broken_pipe_action); }

void prepare_standard_streams() {
  broken_pipe_action = std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // The wrong access mode makes reads and writes fail, as they would on a closed stream. open()
    // returns the lowest free descriptor. This is the descriptor of the stream, since all lower
    // descriptors are open.
    ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void flush_standard_output(int error_before) {
  errno = 0;
  const bool failed_now = std::fflush(stdout) != 0;
  if (!failed_now && std::ferror(stdout) == 0) return;
  const int error = error_before != 0 ? error_before : failed_now ? errno : 0;
  throw standard_output_error(error);
}

OutputError standard_output_error(int error) {
  const std::string reason = error == 0 ? "" : ": " + std::generic_category().message(error);
  return OutputError(
      fmt::format("standard output: could not be written{}", reason),
      error == EPIPE ? "the reader closed the pipe early; the results are not affected"
                     : "write it to a disk with free space, or to a program that reads all output");
}

void warn(const std::string& warning) { print_error_line("warning: " + warning); }

void inform(const std::string& message) { print_error_line(message); }

}  // namespace tapestry
