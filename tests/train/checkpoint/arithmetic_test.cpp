// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/arithmetic.h"

#include <doctest/doctest.h>

#include <string>

namespace tapestry {
namespace {

TEST_CASE("OpenBLAS kernels for much older processors cause a warning with a hint") {
  const std::string slow =
      "warning: OpenBLAS uses kernels for Prescott, several times slower than kernels for this "
      "processor; ";
  const auto warning = [](bool used, const char* core, bool core_is_set, bool wider_vectors) {
    return warning_about_blas({used, core, core_is_set, wider_vectors}).value_or("none");
  };
  CHECK(warning(true, "Prescott", false, true) ==
        slow + "install a newer one (Debian: libopenblas0-pthread)");
  CHECK(warning(true, "Prescott", true, true) == slow + "unset OPENBLAS_CORETYPE");
  CHECK(warning(false, "Prescott", false, true) == "none");
  CHECK(warning(true, "Prescott", false, false) == "none");  // an old processor
  for (const char* core : {"Haswell", "SkylakeX", "Zen", "neoversen1"}) {
    CHECK(warning(true, core, false, true) == "none");
  }
  CHECK(read_blas().used == !read_blas().core.empty());
}

}  // namespace
}  // namespace tapestry
