#include "autograd/kernels/matmul.h"

#include <doctest/doctest.h>

#include <vector>

#include "autograd/kernels/gemm.h"

using namespace tapestry;
using namespace tapestry::kernels;

namespace {

/// What `run` adds to the count.
template <class F>
std::uint64_t counted(F&& run) {
  const FlopCounter counter;
  const std::uint64_t before = counter.count();
  run();
  return counter.count() - before;
}

}  // namespace

TEST_CASE("FlopCounter counts each product once, 2 flops for each multiply-add, small or large") {
  for (const std::size_t n : {1, 7, 96}) {
    CAPTURE(n);
    const std::size_t m = n + 1;
    const std::size_t k = 2 * n;
    const std::vector<float> a(m * k), b(k * n);
    std::vector<float> c(m * n);
    const Operand<float> left{a.data(), k}, right{b.data(), n};
    CHECK(counted([&] { gemm<float>(m, n, k, 1, left, right, {c.data()}, n); }) == 2 * m * n * k);
    CHECK(counted([&] { gemm_here<float>(m, n, k, 1, left, right, {c.data()}, n); }) ==
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

TEST_CASE("the end of one FlopCounter leaves another one counting") {
  const FlopCounter counter;
  const std::uint64_t before = counter.count();
  { const FlopCounter short_lived; }
  count_product(2, 3, 4);
  CHECK(counter.count() - before == 48);
}
