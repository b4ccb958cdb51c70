// SPDX-License-Identifier: BSD-3-Clause
#include "train/system/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <system_error>

#include "data/io/file.h"
#include "train/base/error.h"
#include "train/base/program.h"

namespace tapestry {

pid_t start_this_program(std::vector<std::string> arguments, const std::filesystem::path& errors) {
  arguments.insert(arguments.begin(), program_name());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0666);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t id = 0;
  const int error =
      ::posix_spawn(&id, "/proc/self/exe", &files, &attributes, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (error == 0) return id;
  throw std::system_error(error, std::generic_category());
}

std::optional<int> exit_code_of(pid_t process) {
  int status = 0;
  const pid_t ended = retry_interrupted([&] { return ::waitpid(process, &status, WNOHANG); });
  if (ended == 0) return std::nullopt;
  return WIFSIGNALED(status) ? signal_exit_base + WTERMSIG(status) : WEXITSTATUS(status);
}

void stop_process(pid_t process) { ::kill(process, SIGTERM); }

void await_end(pid_t process) {
  retry_interrupted([&] { return ::waitpid(process, nullptr, 0); });
}

}  // namespace tapestry
