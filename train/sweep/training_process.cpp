#include "train/sweep/training_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "data/io/file_system.h"
#include "train/error.h"
#include "train/platform/blocked_signals.h"
#include "train/platform/program_name.h"

namespace tapestry {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// Where SIGCHLD is ignored, the exit codes of processes are lost. Programs inherit that.
void keep_exit_codes() {
  struct sigaction action {};
  ::sigaction(SIGCHLD, nullptr, &action);
  const bool is_handled = (action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_IGN;
  if (is_handled && (action.sa_flags & SA_NOCLDWAIT) == 0) return;
  ::signal(SIGCHLD, SIG_DFL);
}

/// Replaces the handlers of the parent, which would only record a signal that arrives before the
/// process executes the program, by default actions. Ignored signals stay ignored.
void reset_handlers() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    const bool has_info = (action.sa_flags & SA_SIGINFO) != 0;
    if (has_info || action.sa_handler != SIG_IGN) ::signal(signal, SIG_DFL);
  }
}

/// In the new process, where nothing may allocate memory and signals are still blocked.
[[noreturn]] void become(char* const* arguments, int null, int errors, pid_t parent,
                         const sigset_t& signal_mask) {
  ::setpgid(0, 0);  // Ctrl-C is for the parent, which ends its runs
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const bool is_orphan = ::getppid() != parent;  // ended before prctl()
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  reset_handlers();
  ::pthread_sigmask(SIG_SETMASK, &signal_mask, nullptr);
  if (!is_orphan) ::execv("/proc/self/exe", arguments);
  ::_exit(127);
}

}  // namespace

TrainingProcess::TrainingProcess(const std::vector<std::string>& arguments,
                                 const std::filesystem::path& error_file)
    : id_(0) {
  FileSystem& files = posix_file_system();
  const FileDescriptor null(files, ::open("/dev/null", O_RDWR | O_CLOEXEC));
  const FileDescriptor errors(
      files,
      ::open(error_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!null.is_open()) fail("/dev/null");
  if (!errors.is_open()) fail(error_file.c_str());
  std::vector<std::string> words{program_name()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid();
  keep_exit_codes();
  const BlockedSignals blocked;
  id_ = ::fork();
  if (id_ == 0) become(pointers.data(), null.get(), errors.get(), parent, blocked.before());
  if (id_ < 0) {
    id_ = 0;
    fail("fork");
  }
}

TrainingProcess::TrainingProcess(TrainingProcess&& other) noexcept
    : id_(std::exchange(other.id_, 0)) {}

TrainingProcess::~TrainingProcess() {
  if (id_ == 0) return;
  ::kill(id_, SIGKILL);
  retry_interrupted([&] { return ::waitpid(id_, nullptr, 0); });
}

void TrainingProcess::stop() {
  if (id_ != 0) ::kill(id_, SIGTERM);
}

void TrainingProcess::wait() noexcept {
  if (id_ == 0) return;
  retry_interrupted([&] { return ::waitpid(id_, nullptr, 0); });
  id_ = 0;
}

std::optional<int> TrainingProcess::poll() {
  int status = 0;
  const pid_t ended = retry_interrupted([&] { return ::waitpid(id_, &status, WNOHANG); });
  if (ended == 0) return std::nullopt;
  id_ = 0;
  if (ended < 0) fail("waitpid");
  return WIFSIGNALED(status) ? signal_exit_base + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace tapestry
