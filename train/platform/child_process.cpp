#include "train/platform/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#if defined(TAPESTRY_COVERAGE)
extern "C" {  // which GCC's header lacks
#include <gcov.h>
}
#endif

namespace tapestry {
namespace {

constexpr std::size_t longest_answer = 65536;
constexpr char returned = '+', thrown = '-', out_of_memory = '!';
/// Of the seconds on the processor: so many may pass on the clock, on a busy machine too.
constexpr unsigned clock_factor = 10;

/// Sanitizers take address space as they like, and what they say is to be seen.
#if defined(TAPESTRY_ASAN) || defined(TAPESTRY_TSAN)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

[[noreturn]] void fail(const char* action) {
  throw std::system_error(errno, std::generic_category(), action);
}

/// An end of a pipe.
class PipeEnd {
 public:
  explicit PipeEnd(int descriptor) : descriptor_(descriptor) {}
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;
  ~PipeEnd() { close(); }

  int get() const { return descriptor_; }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_;
};

using Resource = decltype(RLIMIT_CPU);

/// Never more than there was.
void limit(Resource resource, rlim_t soft, rlim_t hard) {
  rlimit now{};
  ::getrlimit(resource, &now);
  const rlimit tight{std::min(soft, now.rlim_cur), std::min(hard, now.rlim_max)};
  ::setrlimit(resource, &tight);
}

/// Address space of this process, in bytes; 0 on systems that do not tell.
std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void limit_memory(std::size_t bytes) {
  const std::size_t taken = address_space();
  if (taken > 0) limit(RLIMIT_AS, taken + bytes, taken + bytes);
}

/// What a dying library says is not for the user.
void keep_silent() {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
}

/// The child dies by its limits, with its parent and without a word.
void limit_this_process(unsigned seconds, std::size_t bytes) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_CPU, seconds, seconds + 1);
  ::alarm(clock_factor * seconds);
  if (!sanitized) {
    limit_memory(bytes);
    keep_silent();
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGFPE, SIGXCPU, SIGALRM}) {
    std::signal(signal, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR) return;
  }
}

/// Without what the parent has to do at its end.
[[noreturn]] void end_at_once() {
#if defined(TAPESTRY_COVERAGE)
  __gcov_dump();
#endif
  ::_exit(0);  // GCOVR_EXCL_LINE: after the last count
}

[[noreturn]] void be_the_child(const std::function<std::string()>& work, int answer,
                               unsigned seconds, std::size_t bytes) {
  limit_this_process(seconds, bytes);
  try {
    write_all(answer, returned + work());
  } catch (const std::bad_alloc&) {
    write_all(answer, {&out_of_memory, 1});
  } catch (const std::exception& error) {
    write_all(answer, std::string(1, thrown) + error.what());
  } catch (...) {
    write_all(answer, std::string(1, thrown) + "an unknown error");
  }
  end_at_once();
}

std::string read_all(int descriptor) {
  std::string text;
  text.reserve(longest_answer + 4096);
  std::array<char, 4096> block{};
  while (text.size() <= longest_answer) {
    const ssize_t count = ::read(descriptor, block.data(), block.size());
    if (count == 0 || (count < 0 && errno != EINTR)) break;
    if (count > 0) text.append(block.data(), static_cast<std::size_t>(count));
  }
  return text;
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

std::string describe_death(int signal, unsigned seconds) {
  if (signal == SIGXCPU) return fmt::format("it took more than {} s of processor time", seconds);
  if (signal == SIGALRM) return fmt::format("it took more than {} s", clock_factor * seconds);
  return fmt::format("it was ended by signal {}", signal);
}

}  // namespace

std::string run_contained(const std::function<std::string()>& work, unsigned seconds,
                          std::size_t bytes) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("make a pipe");
  PipeEnd in(ends[0]), out(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) fail("start a process");
  if (child == 0) {
    in.close();  // else writing more than is read would wait for ever
    be_the_child(work, out.get(), seconds, bytes);
  }
  out.close();
  const std::string answer = read_all(in.get());
  in.close();  // so that a child that says too much ends
  const int status = wait_for(child);
  if (WIFSIGNALED(status)) throw NotContained(describe_death(WTERMSIG(status), seconds));
  if (answer.empty() || answer.size() > longest_answer) {
    throw NotContained(fmt::format("it answered with {} bytes", answer.size()));
  }
  if (answer.front() == out_of_memory) {
    throw NotContained(fmt::format("it took more than {} MB of memory", bytes / 1'000'000));
  }
  if (answer.front() == thrown) throw std::runtime_error(answer.substr(1));
  return answer.substr(1);
}

}  // namespace tapestry
