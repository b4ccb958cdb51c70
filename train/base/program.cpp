// SPDX-License-Identifier: BSD-3-Clause
#include "train/base/program.h"

#include <unistd.h>

#include <array>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace tapestry {
namespace {

std::string& name_of_program() {
  static std::string name = "tapestry";
  return name;
}

}  // namespace

const char* const program_version = TAPESTRY_VERSION;

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

const std::string& program_name() { return name_of_program(); }

void set_program_name(std::string name) { name_of_program() = std::move(name); }

ExitCode to_exit_code(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UserError& user_error) {
    return exit_code(user_error);
  } catch (const std::bad_alloc&) {
    return ExitCode::memory;
  } catch (const std::length_error&) {
    return ExitCode::memory;
  } catch (const std::system_error& system_error) {
    return system_error.code() == std::errc::resource_unavailable_try_again ? ExitCode::memory
                                                                            : ExitCode::failure;
  } catch (...) {
    return ExitCode::failure;
  }
}

}  // namespace tapestry
