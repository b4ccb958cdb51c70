#include "autograd/kernels/gemm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "autograd/kernels/matmul.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"
#include "tests/autograd/kernels/product_check.h"
#include "tests/support/threads.h"

using namespace tapestry;
using namespace tapestry::kernels;
using namespace tapestry::kernels::test;

namespace {

template <class T>
void check_all_transpositions(std::size_t m, std::size_t n, std::size_t k) {
  for (const Gemm<T> gemm_function :
       {Gemm<T>(gemm<T>), Gemm<T>(gemm_here<T>), Gemm<T>(by_packed<T>), Gemm<T>(openblas_gemm<T>),
        Gemm<T>(openblas_gemm_here<T>)}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        check_product<T>(gemm_function, {m, n, k, a_transposed, b_transposed});
        check_product<T>(gemm_function, {m, n, k, a_transposed, b_transposed, true, 3, -1.5});
      }
    }
  }
}

}  // namespace

TEST_CASE("gemm equals a hand-worked product") {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};  // (2, 3)
  const std::vector<float> b = {1, 0, 2, 1, 0, 3};  // (3, 2)
  std::vector<float> out = {100, 100, 100, 100};
  gemm<float>(2, 2, 3, 1.0F, {a.data(), 3}, {b.data(), 2}, {out.data()}, 2);
  CHECK(out == std::vector<float>{5, 11, 14, 23});
  gemm<float>(2, 2, 3, 2.0F, {a.data(), 3}, {b.data(), 2}, {out.data(), true}, 2);
  CHECK(out == std::vector<float>{15, 33, 42, 69});
}

TEST_CASE("gemm agrees with triple loops for all transpositions and odd sizes") {
  const std::size_t sizes[][3] = {{1, 1, 1},  {1, 5, 3},    {5, 1, 3},   {3, 4, 1},
                                  {7, 9, 11}, {16, 16, 16}, {33, 17, 5}, {31, 64, 65}};
  for (const auto& [m, n, k] : sizes) {
    check_all_transpositions<float>(m, n, k);
    check_all_transpositions<double>(m, n, k);
  }
}

TEST_CASE("products beyond the size of a split agree with triple loops, tall and wide") {
  const std::size_t sizes[][3] = {{200, 50, 40},  {50, 203, 40}, {601, 40, 33}, {33, 601, 40},
                                  {129, 129, 65}, {30, 40, 513}, {61, 33, 1024}};
  for (const auto& [m, n, k] : sizes) {
    for (const std::size_t threads : {1, 2}) {
      const tapestry::test::Threads count(threads);
      check_all_transpositions<float>(m, n, k);
      check_all_transpositions<double>(m, n, k);
    }
  }
}

TEST_CASE("gemm over an inner extent of 0 gives zeros, or leaves the values it adds to") {
  for (const bool add : {false, true}) {
    check_product<float>(gemm<float>, {3, 4, 0, false, false, add, 2});
    check_product<double>(gemm<double>, {3, 4, 0, true, true, add, 0});
  }
}

TEST_CASE("a product without rows or columns writes nothing") {
  float untouched = 5.0F;
  const float value = 1.0F;
  gemm<float>(0, 1, 1, 1.0F, {&value, 1}, {&value, 1}, {&untouched}, 1);
  gemm<float>(1, 0, 1, 1.0F, {&value, 1}, {&value, 1}, {&untouched}, 1);
  CHECK(untouched == 5.0F);
}

TEST_CASE("gemm adds a bias to every row once, for any inner extent and block shape") {
  const std::size_t sizes[][3] = {{90, 70, 0},   {90, 70, 3},    {90, 70, 70},  {40, 203, 50},
                                  {33, 601, 40}, {90, 70, 256},  {90, 70, 257}, {90, 70, 300},
                                  {13, 33, 700}, {600, 520, 514}};
  for (const auto& size : sizes) {
    const std::size_t m = size[0], n = size[1], k = size[2];
    CAPTURE(n);
    CAPTURE(k);
    const Matrix<double> a(m, k, false, 0, 1.0);
    const Matrix<double> b(k, n, false, 0, 2.0);
    std::vector<double> bias(n);
    for (std::size_t j = 0; j < n; ++j) bias[j] = static_cast<double>(j);
    for (const Gemm<double> product :
         {Gemm<double>(gemm<double>), Gemm<double>(gemm_here<double>),
          Gemm<double>(by_packed<double>), Gemm<double>(openblas_gemm<double>)}) {
      for (const bool add : {false, true}) {
        std::vector<double> plain(m * n, 0.25), biased(m * n, 0.25);
        product(m, n, k, 1.0, a.operand(), b.operand(), {plain.data(), add}, n, nullptr);
        product(m, n, k, 1.0, a.operand(), b.operand(), {biased.data(), add}, n, bias.data());
        double worst = 0.0;
        for (std::size_t i = 0; i < m * n; ++i) {
          REQUIRE_FALSE(std::isnan(biased[i]));
          worst = std::max(worst, std::abs(biased[i] - plain[i] - bias[i % n]));
        }
        CHECK(worst < 1e-12);
      }
    }
  }
}

TEST_CASE("gemm has the same bits on any number of threads") {
  const std::size_t sizes[][3] = {{300, 64, 64}, {64, 300, 64},  {257, 255, 129}, {40, 40, 400},
                                  {3, 300, 700}, {61, 33, 1024}, {97, 131, 530}};
  for (const auto& [m, n, k] : sizes) {
    for (const bool transposed : {false, true}) {
      const Matrix<float> a(m, k, transposed, 0, 1.0);
      const Matrix<float> b(k, n, !transposed, 0, 2.0);
      CHECK(tapestry::test::same_on_any_number_of_threads([&, m = m, n = n, k = k] {
        std::vector<float> plain(m * n), added(m * n, 0.3F);
        const std::vector<float> bias(n, 0.7F);
        gemm<float>(m, n, k, 1.0F, a.operand(), b.operand(), {plain.data()}, n);
        gemm<float>(m, n, k, -1.7F, a.operand(), b.operand(), {added.data(), true}, n, bias.data());
        return std::pair(plain, added);
      }));
    }
  }
}

TEST_CASE("the bits of an element of gemm do not depend on the other rows and columns") {
  if (matmul_in_use() == Matmul::openblas) return;  // it promises nothing
  constexpr std::size_t m = 97, n = 131, k = 530;
  for (const bool transposed : {false, true}) {
    const Matrix<float> a(m, k, transposed, 3, 1.0);
    const Matrix<float> b(k, n, transposed, 5, 2.0);
    std::vector<float> whole(m * n);
    gemm<float>(m, n, k, 1.0F, a.operand(), b.operand(), {whole.data()}, n);
    for (const std::size_t i : {0, 1, 11, 12, 84, 96}) {
      for (const std::size_t j : {0, 15, 16, 31, 32, 128, 130}) {
        const Operand<float> row{a.data.data() + (transposed ? i : i * a.stride), a.stride,
                                 transposed};
        const Operand<float> column{b.data.data() + (transposed ? j * b.stride : j), b.stride,
                                    transposed};
        float alone = 0.0F;
        gemm<float>(1, 1, k, 1.0F, row, column, {&alone}, 1);
        CHECK(alone == whole[i * n + j]);
      }
    }
  }
}

TEST_CASE("gemm_here works inside the pieces of parallel_for") {
  const tapestry::test::Threads count(2);
  constexpr std::size_t n = 70;
  const Matrix<float> a(n, n, false, 0, 1.0);
  std::vector<std::vector<float>> results(6, std::vector<float>(n * n));
  parallel_for(results.size(), [&](std::size_t i) {
    gemm_here<float>(n, n, n, 1.0F, a.operand(), a.operand(), {results[i].data()}, n);
  });
  for (const auto& result : results) CHECK(result == results[0]);
}
