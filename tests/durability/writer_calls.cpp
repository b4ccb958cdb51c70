// SPDX-License-Identifier: BSD-3-Clause
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

// Preloaded into the program (LD_PRELOAD), which writes checkpoints on separate threads, one after
// another. Lists the file calls of all threads except the main thread, and makes one of them fail
// or kills the process there. strace cannot do this, since it counts the calls of each thread
// separately.
//
//     TAPESTRY_CALLS=FILE               appends a line "NAME PATH" for each call
//     TAPESTRY_FAULT="N TIMES RESULT"   does not execute the N-th of these calls, from 1, and the
//                                       next TIMES - 1 calls with its name, of any thread.
//                                       RESULT > 0: returns it; RESULT < 0: returns -1 with errno
//                                       -RESULT; 0: kills the process
namespace {

struct Fault {
  long first = 0;
  long times = 0;
  long result = 0;
};

Fault read_fault() {
  Fault fault;
  const char* text = std::getenv("TAPESTRY_FAULT");
  if (text != nullptr) {
    std::sscanf(text, "%ld %ld %ld", &fault.first, &fault.times, &fault.result);
  }
  return fault;
}

std::atomic<long> calls{0};   // number of calls by threads other than the main thread
std::atomic<long> failed{0};  // number of calls that were not executed

/// The name of the call that failed first.
std::atomic<const char*> failing_name{nullptr};

void list(const char* name, const char* path) {
  static const char* const file = std::getenv("TAPESTRY_CALLS");
  if (file == nullptr) return;
  std::array<char, 1200> line{};
  const int size = std::snprintf(line.data(), line.size(), "%s %s\n", name, path);
  const long fd =
      ::syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  ::syscall(SYS_write, fd, line.data(), size);
  ::syscall(SYS_close, fd);
}

bool is_main_thread() { return ::syscall(SYS_gettid) == ::getpid(); }

/// Whether this call must fail. Sets `result` to the value that it returns.
bool fails(const char* name, const char* path, long& result) {
  static const Fault fault = read_fault();
  const int error = errno;
  if (is_main_thread()) {
    const char* const failing = failing_name;
    if (failing == nullptr || std::strcmp(failing, name) != 0) return false;
  } else {
    const long number = ++calls;
    list(name, path);
    errno = error;
    if (number == fault.first) failing_name = name;
    const char* const failing = failing_name;
    if (failing == nullptr || std::strcmp(failing, name) != 0) return false;
  }
  if (failed++ >= fault.times) return false;
  if (fault.result == 0) ::raise(SIGKILL);
  result = fault.result > 0 ? fault.result : -1;
  if (fault.result < 0) errno = static_cast<int>(-fault.result);
  return true;
}

/// Whether a call on a file descriptor must fail.
bool fails(const char* name, int fd, long& result) {
  std::array<char, 32> link{};
  std::array<char, 1024> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  const int error = errno;
  if (::readlink(link.data(), path.data(), path.size() - 1) < 0) path[0] = '\0';
  errno = error;
  return fails(name, path.data(), result);
}

/// Calls `original`, or returns the result of a failure.
template <class Result, class Target, class... Arguments>
Result call(const char* name, Target target, Result (*original)(Arguments...),
            Arguments... arguments) {
  long result = 0;
  if (fails(name, target, result)) return static_cast<Result>(result);
  return original(arguments...);
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// Replacements of functions of the C library. On some systems, functions for large files have other
// names.
extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  static const auto original = next<int(const char*, int, mode_t)>("open");
  return call("open", path, original, path, flags, mode);
}

int close(int fd) {
  static const auto original = next<int(int)>("close");
  return call("close", fd, original, fd);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  static const auto original = next<ssize_t(int, const void*, size_t)>("write");
  return call("write", fd, original, fd, bytes, count);
}

ssize_t pread(int fd, void* bytes, size_t count, off_t offset) {
  static const auto original = next<ssize_t(int, void*, size_t, off_t)>("pread");
  return call("pread", fd, original, fd, bytes, count, offset);
}

int fsync(int fd) {
  static const auto original = next<int(int)>("fsync");
  return call("fsync", fd, original, fd);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  static const auto original = next<int(int, int, off_t, off_t)>("fallocate");
  return call("fallocate", fd, original, fd, mode, offset, size);
}

int fstat(int fd, struct stat* status) noexcept {
  static const auto original = next<int(int, struct stat*)>("fstat");
  return call("fstat", fd, original, fd, status);
}

int stat(const char* path, struct stat* status) noexcept {
  static const auto original = next<int(const char*, struct stat*)>("stat");
  return call("stat", path, original, path, status);
}

int lstat(const char* path, struct stat* status) noexcept {
  static const auto original = next<int(const char*, struct stat*)>("lstat");
  return call("lstat", path, original, path, status);
}

int rename(const char* from, const char* to) noexcept {
  static const auto original = next<int(const char*, const char*)>("rename");
  return call("rename", to, original, from, to);
}

int unlink(const char* path) noexcept {
  static const auto original = next<int(const char*)>("unlink");
  return call("unlink", path, original, path);
}

DIR* opendir(const char* path) {
  static const auto original = next<DIR*(const char*)>("opendir");
  long result = 0;
  return fails("opendir", path, result) ? nullptr : original(path);
}

}  // extern "C"
