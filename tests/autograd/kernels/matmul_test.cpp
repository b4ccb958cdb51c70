#include "autograd/kernels/matmul.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <iterator>

#include "autograd/ops/linear.h"
#include "autograd/random.h"
#include "autograd/tensor.h"
#include "tests/support/values.h"

using namespace tapestry;

namespace {

/// Restores the choice that was in use.
class MatmulBefore {
 public:
  MatmulBefore() : choice_(matmul_in_use()) {}
  ~MatmulBefore() { use_matmul(choice_); }
  MatmulBefore(const MatmulBefore&) = delete;
  MatmulBefore& operator=(const MatmulBefore&) = delete;

 private:
  Matmul choice_;
};

std::ptrdiff_t count_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

}  // namespace

TEST_CASE("products of OpenBLAS on our threads start no others") {
  const MatmulBefore before;
  const RandomStream random(3);
  const Tensor a = random_normal({300, 300}, random.at(0));
  use_matmul(Matmul::openblas);
  matmul(a, a);  // starts our threads, and those of OpenBLAS again if a fork has ended them
  const std::ptrdiff_t threads = count_threads();
  for (int i = 0; i < 3; ++i) matmul(a, a);
  CHECK(count_threads() == threads);
}

TEST_CASE("matrix products of OpenBLAS and of Tapestry agree to rounding") {
  const MatmulBefore before;
  const RandomStream random(3);
  const Tensor a = random_normal({70, 130}, random.at(0)),
               b = random_normal({130, 90}, random.at(1));
  use_matmul(Matmul::tapestry);
  CHECK(matmul_in_use() == Matmul::tapestry);
  CHECK(openblas_kernels().empty());
  const auto own = test::values_of(matmul(a, b));
  use_matmul(Matmul::openblas);
  CHECK(matmul_in_use() == Matmul::openblas);
  CHECK_FALSE(openblas_kernels().empty());
  const auto blas = test::values_of(matmul(a, b));
  REQUIRE(blas.size() == own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    CHECK(own[i] == doctest::Approx(blas[i]).epsilon(1e-4));
  }
}
