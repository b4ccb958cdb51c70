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
extern "C" {  // missing in GCC's header
#include <gcov.h>
}
#endif

namespace tapestry {
namespace {

/// The first byte of the outcome, which the child writes to a second pipe when its work has ended.
/// The whole outcome fits into the smallest pipe buffer, so that writing it never blocks.
constexpr char returned = '+', thrown = '-', out_of_memory = '!';
constexpr std::size_t longest_message = 4000;
constexpr std::size_t buffer_size = std::size_t{1} << 20;
/// Limit of elapsed time as a multiple of the limit of processor time, to allow for a busy machine.
constexpr unsigned clock_factor = 10;

/// Sanitizers reserve large address ranges, and their reports must stay visible.
#if defined(TAPESTRY_ASAN) || defined(TAPESTRY_TSAN)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

/// Sanitizers open files to symbolize reports, and coverage counters are written to files.
#if defined(TAPESTRY_COVERAGE)
constexpr bool instrumented = true;
#else
constexpr bool instrumented = sanitized;
#endif

[[noreturn]] void fail(const char* action) {
  throw std::system_error(errno, std::generic_category(), action);
}

struct Pipe {
  FileDescriptor to_read, to_write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("make a pipe");
  return {{posix_file_system(), ends[0]}, {posix_file_system(), ends[1]}};
}

using Resource = decltype(RLIMIT_CPU);

/// Sets a limit to at most its current value.
void limit(Resource resource, rlim_t soft, rlim_t hard) {
  rlimit now{};
  ::getrlimit(resource, &now);
  const rlimit tight{std::min(soft, now.rlim_cur), std::min(hard, now.rlim_max)};
  ::setrlimit(resource, &tight);
}

/// Address space of this process in bytes; 0 if /proc/self/statm cannot be read.
std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void limit_memory(std::size_t bytes) {
  const std::size_t taken = address_space();
  if (taken > 0) limit(RLIMIT_AS, taken + bytes, taken + bytes);
}

/// Discards output of the library, such as its messages before an abort.
void keep_silent() {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
}

/// Applies the limits; the child also ends when its parent ends, and it prints nothing.
void limit_this_process(ChildProcess::Limits limits) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_CPU, limits.seconds, limits.seconds + 1);
  ::alarm(clock_factor * limits.seconds);
  if (!sanitized) {
    limit_memory(limits.bytes);
    keep_silent();
  }
  if (!instrumented) limit(RLIMIT_NOFILE, 0, 0);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGFPE, SIGXCPU, SIGALRM, SIGPIPE}) {
    std::signal(signal, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// If the reading end is closed, SIGPIPE ends the process.
void write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR) ::_exit(1);
  }
}

/// Ends the process without the exit handlers inherited from the parent.
[[noreturn]] void end_at_once() {
#if defined(TAPESTRY_COVERAGE)
  __gcov_dump();
#endif
  ::_exit(0);  // GCOVR_EXCL_LINE: after the counters are written
}

/// Runs the work and returns the outcome to send to the parent.
std::string do_work(const ChildProcess::Work& work, const ChildProcess::Send& send) try {
  work(send);
  return {returned};
} catch (const std::bad_alloc&) {
  return {out_of_memory};
} catch (const std::exception& error) {
  return thrown + std::string(error.what()).substr(0, longest_message);
} catch (...) {
  return thrown + std::string("an unknown error");
}

/// An exception that leaves this function, such as std::bad_alloc while the outcome is written
/// down, terminates the child; it must not continue in the code of the parent.
[[noreturn]] void run_child(const ChildProcess::Work& work, ChildProcess::Limits limits, int data,
                            int outcome) noexcept {
  limit_this_process(limits);
  const std::string last =
      do_work(work, [data](std::span<const std::byte> bytes) { write_all(data, bytes); });
  write_all(outcome, std::as_bytes(std::span(last)));
  end_at_once();
}

/// The number of bytes read; 0 at the end of the data.
std::size_t read_some(int descriptor, std::span<std::byte> to) {
  const ssize_t count = retry_interrupted([&] { return ::read(descriptor, to.data(), to.size()); });
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

std::string read_outcome(int descriptor) {
  std::string text(longest_message + 1, '\0');
  std::size_t size = 0, count = 0;
  do {
    count = read_some(descriptor, std::as_writable_bytes(std::span(text)).subspan(size));
    size += count;
  } while (count > 0 && size < text.size());
  text.resize(size);
  return text;
}

int wait_for(pid_t child) {
  int status = 0;
  retry_interrupted([&] { return ::waitpid(child, &status, 0); });
  return status;
}

std::string describe_death(int signal, unsigned seconds) {
  if (signal == SIGXCPU) return fmt::format("it took more than {} s of processor time", seconds);
  if (signal == SIGALRM) return fmt::format("it took more than {} s", clock_factor * seconds);
  return fmt::format("it was ended by signal {}", signal);
}

}  // namespace

ChildProcess::ChildProcess(const Work& work, Limits limits)
    : limits_(limits), buffer_(buffer_size), child_(start(work, limits)) {}

ChildProcess::~ChildProcess() {
  if (child_.id < 0) return;
  ::kill(child_.id, SIGKILL);
  wait_for(child_.id);
}

ChildProcess::Running ChildProcess::start(const Work& work, Limits limits) {
  Pipe data = make_pipe(), outcome = make_pipe();
  ::fcntl(data.to_read.get(), F_SETPIPE_SZ, static_cast<int>(buffer_size));  // faster, if allowed
  const pid_t child = ::fork();
  if (child < 0) fail("start a process");
  if (child == 0) {
    data.to_read.close();  // otherwise the child would block forever on data that are not read
    outcome.to_read.close();
    run_child(work, limits, data.to_write.get(), outcome.to_write.get());
  }
  return {.id = child, .data = std::move(data.to_read), .outcome = std::move(outcome.to_read)};
}

bool ChildProcess::read_more() {
  rest_ = std::span(buffer_).first(read_some(child_.data.get(), buffer_));
  return !rest_.empty();
}

void ChildProcess::receive(std::span<std::byte> to) {
  while (!to.empty()) {
    if (rest_.empty() && !read_more()) refuse_early_end();
    const auto part = rest_.first(std::min(rest_.size(), to.size()));
    std::ranges::copy(part, to.begin());
    rest_ = rest_.subspan(part.size());
    to = to.subspan(part.size());
  }
}

void ChildProcess::finish() {
  if (!rest_.empty() || read_more()) throw NotContained("it sent more than was expected");
  require_success();
}

void ChildProcess::refuse_early_end() {
  require_success();
  throw NotContained("it sent less than was expected");
}

/// Throws unless the outcome is success. To be called at the end of the data.
void ChildProcess::require_success() {
  const std::string outcome = read_outcome(child_.outcome.get());
  const int status = wait_for(std::exchange(child_.id, -1));
  if (WIFSIGNALED(status)) throw NotContained(describe_death(WTERMSIG(status), limits_.seconds));
  if (outcome.empty()) throw NotContained("it ended without an answer");
  if (outcome.front() == out_of_memory) {
    throw NotContained(fmt::format("it took more than {} MB of memory", limits_.bytes / 1'000'000));
  }
  if (outcome.front() == thrown) throw std::runtime_error(outcome.substr(1));
}

}  // namespace tapestry
