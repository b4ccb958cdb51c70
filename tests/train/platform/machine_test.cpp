#include "train/platform/machine.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace tapestry {
namespace {

const double no_limit = std::numeric_limits<double>::infinity();

std::string text_of(const std::optional<std::string>& warning) { return warning.value_or("none"); }

TEST_CASE("enough free cores raise no warning, up to half a core that others use") {
  CHECK(text_of(warning_about_cores({.all = 8, .allowed = 8}, 8)) == "none");
  CHECK(text_of(warning_about_cores({.all = 8, .allowed = 8, .busy = 0.5}, 8)) == "none");
  CHECK(text_of(warning_about_cores({.all = 64, .allowed = 8, .busy = 50}, 8)) == "none");
  CHECK(text_of(warning_about_cores({.all = 8, .allowed = 8, .quota = 2.0}, 2)) == "none");
}

TEST_CASE("more threads than cores they may run on are named") {
  CHECK(text_of(warning_about_cores({.all = 8, .allowed = 2}, 4)) ==
        "warning: threads: 4 on 2 cores; try train.threads=2");
}

TEST_CASE("more threads than the control group's quota are named, with whole ones to try") {
  CHECK(text_of(warning_about_cores({.all = 8, .allowed = 8, .quota = 2.5}, 8)) ==
        "warning: threads: 8, but the control group's cpu.max limits it to 2.5 cores; try "
        "train.threads=2");
  CHECK(text_of(warning_about_cores({.all = 8, .allowed = 8, .quota = 0.5}, 1)) ==
        "warning: threads: 1, but the control group's cpu.max limits it to 0.5 cores");
}

TEST_CASE("of two limits the tighter one is named") {
  CHECK(text_of(warning_about_cores({.all = 8, .allowed = 4, .quota = 2.0}, 8)) ==
        "warning: threads: 8, but the control group's cpu.max limits it to 2.0 cores; try "
        "train.threads=2");
  CHECK(text_of(warning_about_cores({.all = 8, .allowed = 2, .quota = 4.0}, 8)) ==
        "warning: threads: 8 on 2 cores; try train.threads=2");
  CHECK(text_of(warning_about_cores({.all = 8, .allowed = 2, .quota = 2.0}, 8)) ==
        "warning: threads: 8 on 2 cores; try train.threads=2");
}

TEST_CASE("other programs at work are named") {
  CHECK(text_of(warning_about_cores({.all = 2, .allowed = 2, .busy = 1.26}, 2)) ==
        "warning: threads: 2, but other programs keep 1.3 of 2 cores busy and slow the run down");
}

TEST_CASE("cores busy for others are the lesser of the last minute and of now, without this one") {
  CHECK(busy_cores("1.50 0.70 0.80 6/208 4711\n") == 1.5);
  CHECK(busy_cores("4.00 0.70 0.80 3/208 4711\n") == 2.0);
  CHECK(busy_cores("4.00 0.70 0.80 1/208 4711\n") == 0.0);
  CHECK(busy_cores("4.00 0.70 0.80 0/208 4711\n") == 0.0);
  CHECK(busy_cores("") == 0.0);
}

TEST_CASE("cpu.max is microseconds in each period, or no limit") {
  CHECK(cores_of_cpu_max("150000 100000\n") == 1.5);
  CHECK(cores_of_cpu_max("max 100000\n") == no_limit);
  for (const char* unreadable : {"", "what", "100000", "100000 0", "0 100000"}) {
    CAPTURE(unreadable);
    CHECK(cores_of_cpu_max(unreadable) == no_limit);
  }
}

TEST_CASE("the tightest quota of a control group and those above it counts") {
  const test::TemporaryFolder root;
  std::filesystem::create_directories(root / "a/b");
  CHECK(cpu_quota(root.path(), "/a/b") == no_limit);
  std::ofstream(root / "a/b/cpu.max") << "400000 100000";
  CHECK(cpu_quota(root.path(), "/a/b") == 4.0);
  std::ofstream(root / "a/cpu.max") << "300000 100000";
  CHECK(cpu_quota(root.path(), "/a/b") == 3.0);
  std::ofstream(root / "cpu.max") << "200000 100000";
  CHECK(cpu_quota(root.path(), "/a/b") == 2.0);
  CHECK(cpu_quota(root.path(), "/") == 2.0);
  std::ofstream(root / "cpu.max") << "max 100000";
  CHECK(cpu_quota(root.path(), "/") == no_limit);
}

TEST_CASE("a quota that cannot be read is none") {
  const test::TemporaryFolder root;
  std::filesystem::create_directories(root / "cpu.max");  // opens, and fails when it is read
  CHECK(cpu_quota(root.path(), "/") == no_limit);
}

/// A build that leaves products to an OpenBLAS that takes a new processor for an old one.
Blas slow_blas() {
  return {.used = true, .core = "Prescott", .core_is_set = false, .wider_vectors_exist = true};
}

TEST_CASE("a BLAS with kernels for much older processors is named, with a way out") {
  Blas blas = slow_blas();
  CHECK(text_of(warning_about_blas(blas)) ==
        "warning: OpenBLAS uses kernels for Prescott, several times slower than this processor "
        "supports; install a newer one (Debian: libopenblas0-pthread)");
  blas.core_is_set = true;
  CHECK(text_of(warning_about_blas(blas)) ==
        "warning: OpenBLAS uses kernels for Prescott, several times slower than this processor "
        "supports; unset OPENBLAS_CORETYPE");
}

TEST_CASE("a BLAS that fits the processor, or is not used, raises no warning") {
  Blas blas = slow_blas();
  for (const char* core : {"Haswell", "SkylakeX", "Zen", "neoversen1"}) {
    CAPTURE(core);
    blas.core = core;
    CHECK(text_of(warning_about_blas(blas)) == "none");
  }
  blas = slow_blas();
  blas.used = false;
  CHECK(text_of(warning_about_blas(blas)) == "none");
  blas = slow_blas();
  blas.wider_vectors_exist = false;
  CHECK(text_of(warning_about_blas(blas)) == "none");
}

TEST_CASE("this machine can be read") {
  const Cores cores = read_cores();
  CHECK(cores.allowed >= 1);
  CHECK(cores.all >= cores.allowed);
  CHECK(cores.quota > 0.0);
  CHECK(std::isfinite(cores.busy));
  CHECK(read_blas().used == !read_blas().core.empty());
}

}  // namespace
}  // namespace tapestry
