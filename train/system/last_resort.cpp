#include "train/system/last_resort.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <string_view>

namespace tapestry {
namespace {

int exit_code = EXIT_FAILURE;
std::terminate_handler usual_end = nullptr;

[[noreturn]] void end() {
  if (std::current_exception() != nullptr) usual_end();
  constexpr std::string_view message =
      "tapestry: error: the system has no more memory\n"
      "hint: end other programs or give it more memory (see `ulimit -v`)\n";
  static_cast<void>(!::write(STDERR_FILENO, message.data(), message.size()));
  std::_Exit(exit_code);
}

}  // namespace

void end_with_code_where_nothing_can_be_thrown(int code) {
  exit_code = code;
  usual_end = std::set_terminate(end);
}

}  // namespace tapestry
