// SPDX-License-Identifier: BSD-3-Clause
#include "train/system/memory.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

namespace tapestry {
namespace {

int out_of_memory_exit_code = EXIT_FAILURE;
std::terminate_handler previous_handler = nullptr;

/// Whether the process terminates because of std::bad_alloc or a missing exception object.
bool memory_is_lacking() {
  if (std::current_exception() == nullptr) return true;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

[[noreturn]] void terminate() {
  if (!memory_is_lacking()) previous_handler();
  constexpr std::string_view message =
      "tapestry: error: the system has no more memory\n"
      "hint: end other programs or give it more memory (see `ulimit -v`)\n";
  static_cast<void>(!::write(STDERR_FILENO, message.data(), message.size()));
  std::_Exit(out_of_memory_exit_code);
}

}  // namespace

void set_out_of_memory_exit_code(int code) {
  out_of_memory_exit_code = code;
  previous_handler = std::set_terminate(terminate);
}

namespace {

bool has_limited_address_space() {
  rlimit address_space{};
  return ::getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY;
}

}  // namespace

void end_process(int code) {
  if (!has_limited_address_space()) std::exit(code);
  std::fflush(nullptr);
  std::_Exit(code);
}

void prepare_threads_for_limits() {
  constexpr std::size_t min_stack = std::size_t{1} << 20;
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) == 0) {
    std::size_t stack = 0;
    ::pthread_attr_getstacksize(&attributes, &stack);
    ::pthread_attr_setstacksize(&attributes, std::max(stack, min_stack));
    ::pthread_setattr_default_np(&attributes);
    ::pthread_attr_destroy(&attributes);
  }
  if (has_limited_address_space()) ::mallopt(M_ARENA_MAX, 1);
}

}  // namespace tapestry
