#include "train/system/last_resort.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

namespace tapestry {
namespace {

int exit_code = EXIT_FAILURE;
std::terminate_handler usual_end = nullptr;

/// Whether the process ends because no exception could be made, or by one that says the same.
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

[[noreturn]] void end() {
  if (!memory_is_lacking()) usual_end();
  constexpr std::string_view message =
      "tapestry: error: the system has no more memory\n"
      "hint: end other programs or give it more memory (see `ulimit -v`)\n";
  static_cast<void>(!::write(STDERR_FILENO, message.data(), message.size()));
  std::_Exit(exit_code);
}

}  // namespace

void end_with_code_without_memory(int code) {
  exit_code = code;
  usual_end = std::set_terminate(end);
}

}  // namespace tapestry
