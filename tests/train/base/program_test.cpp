// SPDX-License-Identifier: BSD-3-Clause
#include "train/base/program.h"

#include <doctest/doctest.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "autograd/kernels/memory.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

TEST_CASE("to_exit_code() distinguishes running out of memory from unknown errors") {
  const auto exit_code = [](const auto& error) {
    return to_exit_code(std::make_exception_ptr(error));
  };
  CHECK(exit_code(DataError("x")) == ExitCode::data);
  CHECK(exit_code(OutputError("x")) == ExitCode::output);
  CHECK(exit_code(ProgramError(ExitCode::peer_failed, "x", "")) == ExitCode::peer_failed);
  CHECK(exit_code(std::bad_alloc()) == ExitCode::memory);
  CHECK(exit_code(kernels::OutOfMemory(8, 0)) == ExitCode::memory);
  CHECK(exit_code(std::system_error(
            std::make_error_code(std::errc::resource_unavailable_try_again))) == ExitCode::memory);
  CHECK(exit_code(std::system_error(std::make_error_code(std::errc::invalid_argument))) ==
        ExitCode::failure);
  CHECK(exit_code(std::runtime_error("x")) == ExitCode::failure);
  CHECK(exit_code(1) == ExitCode::failure);
  try {
    std::vector<char> all;
    all.resize(all.max_size() + 1);
  } catch (...) {
    CHECK(to_exit_code(std::current_exception()) == ExitCode::memory);
  }
}

}  // namespace
}  // namespace tapestry
