// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/matmul.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <vector>

#include "autograd/kernels/gemm.h"
#include "autograd/ops/linear.h"
#include "autograd/random.h"
#include "autograd/tensor.h"
#include "tests/support/values.h"

namespace tapestry::kernels {

namespace {

/// Restores the matmul implementation when it is destroyed.
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

TEST_CASE("OpenBLAS products on Tapestry's threads do not start OpenBLAS threads") {
  const MatmulBefore before;
  const RandomStream random(3);
  const Tensor a = random_normal({300, 300}, random.at(0));
  use_matmul(Matmul::openblas);
  // Starts Tapestry's threads, and makes OpenBLAS restart its threads if a fork has ended them, so
  // that the count below includes both.
  matmul(a, a);
  const std::ptrdiff_t threads = count_threads();
  for (int i = 0; i < 3; ++i) matmul(a, a);
  CHECK(count_threads() == threads);
}

TEST_CASE("matrix products of OpenBLAS and of Tapestry agree up to rounding") {
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

namespace {

/// The number of flops that `run` adds to the count.
template <class F>
std::uint64_t counted(F&& run) {
  const FlopCounter counter;
  const std::uint64_t before = counter.count();
  run();
  return counter.count() - before;
}

}  // namespace

TEST_CASE("FlopCounter counts each small or large product once, as 2 flops per multiply-add") {
  for (const std::size_t n : {1, 7, 96}) {
    CAPTURE(n);
    const std::size_t m = n + 1;
    const std::size_t k = 2 * n;
    const std::vector<float> a(m * k), b(k * n);
    std::vector<float> c(m * n);
    const Operand<float> left{a.data(), k}, right{b.data(), n};
    CHECK(counted([&] { gemm<float>(m, n, k, 1, left, right, {c.data()}, n); }) == 2 * m * n * k);
    CHECK(counted([&] { gemm_serial<float>(m, n, k, 1, left, right, {c.data()}, n); }) ==
          2 * m * n * k);
    const PackedOperand<float> packed(k, n, right);
    CHECK(counted([&] { gemm_packed<float>(m, 1, left, packed, {c.data()}, n); }) == 2 * m * n * k);
  }
}

TEST_CASE("FlopCounter counts 0 for a product without rows") {
  CHECK(counted([] { gemm<double>(0, 3, 3, 1, {nullptr, 3}, {nullptr, 3}, {}, 3); }) == 0);
}

TEST_CASE("products count no flops without a FlopCounter") {
  count_product(2, 3, 4);
  std::uint64_t before = 0;
  {
    const FlopCounter counter;
    before = counter.count();
  }
  count_product(2, 3, 4);
  const FlopCounter counter;
  CHECK(counter.count() == before);
}

TEST_CASE("a FlopCounter continues to count after a nested FlopCounter has ended") {
  const FlopCounter counter;
  const std::uint64_t before = counter.count();
  { const FlopCounter short_lived; }
  count_product(2, 3, 4);
  CHECK(counter.count() - before == 48);
}

}  // namespace tapestry::kernels
