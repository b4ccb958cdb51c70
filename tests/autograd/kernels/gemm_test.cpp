// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/gemm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "autograd/instruction_set.h"
#include "autograd/kernels/gemm_tile.h"
#include "autograd/kernels/matmul.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"
#include "tests/support/threads.h"

using namespace tapestry;
using namespace tapestry::kernels;

namespace {

/// Irregular values. Elements between the rows and after the last row are NaN: a product must not
/// use them, even multiplied by 0.
template <class T>
struct Matrix {
  std::size_t rows, columns, stride;
  bool transposed;  ///< whether the values are stored as (columns, rows)
  std::vector<T> data;

  Matrix(std::size_t m, std::size_t n, bool is_transposed, std::size_t padding, double seed)
      : rows(m), columns(n), stride((is_transposed ? m : n) + padding), transposed(is_transposed) {
    const std::size_t stored_rows = transposed ? n : m;
    data.assign(stored_rows * stride + padding, std::numeric_limits<T>::quiet_NaN());
    for (std::size_t i = 0; i < stored_rows * stride; ++i) {
      if (i % stride + padding < stride) {
        data[i] = static_cast<T>(std::sin(seed + 2.3 * static_cast<double>(i)));
      }
    }
  }
  double at(std::size_t i, std::size_t j) const {
    return static_cast<double>(transposed ? data[j * stride + i] : data[i * stride + j]);
  }
  Operand<T> operand() const { return {data.data(), stride, transposed}; }
};

template <class T>
using Gemm = void (*)(std::size_t, std::size_t, std::size_t, T, Operand<T>, Operand<T>, Target<T>,
                      std::size_t, const T*);

/// A product with a right operand that was packed beforehand.
template <class T>
void by_packed(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,
               Target<T> out, std::size_t out_stride, const T* bias) {
  use_kernels(TAPESTRY_INSTRUCTION_SET);  // pack_operand() uses the selected kernels
  gemm_packed<T>(m, scale, a, PackedOperand<T>(k, n, b), out, out_stride, bias);
}

/// All functions for matrix products except OpenBLAS.
template <class T>
const std::vector<Gemm<T>> own_products = {gemm<T>, gemm_serial<T>, by_packed<T>};

struct Case {
  std::size_t m, n, k;
  bool a_transposed = false, b_transposed = false, add = false;
  std::size_t padding = 0;  ///< elements between the rows of a, of b and of the result
  double scale = 1.0;
  bool biased = false;
};

/// The bias of column j.
double bias_at(std::size_t j) { return 0.25 * static_cast<double>(j % 7) - 0.5; }

/// The result in rows of n + padding values. Padding is 77; if c.add, the product is added to 0.5.
template <class T>
std::vector<T> product_of(Gemm<T> gemm_function, const Case& c, const Matrix<T>& a,
                          const Matrix<T>& b) {
  const std::size_t stride = c.n + c.padding;
  std::vector<T> out(c.m * stride + 1, T(77));
  const T before = c.add ? T(0.5) : std::numeric_limits<T>::quiet_NaN();
  for (std::size_t i = 0; i < c.m; ++i) std::fill_n(out.data() + i * stride, c.n, before);
  std::vector<T> bias(c.n);
  for (std::size_t j = 0; j < c.n; ++j) bias[j] = static_cast<T>(bias_at(j));
  gemm_function(c.m, c.n, c.k, static_cast<T>(c.scale), a.operand(), b.operand(),
                {out.data(), c.add}, stride, c.biased ? bias.data() : nullptr);
  return out;
}

/// Error of element (i, j), relative to the sum of the magnitudes of its terms; infinite for NaN.
template <class T>
double relative_error(double found, const Case& c, const Matrix<T>& a, const Matrix<T>& b,
                      std::size_t i, std::size_t j) {
  double sum = (c.add ? 0.5 : 0.0) + (c.biased ? bias_at(j) : 0.0), magnitude = 1.0;
  for (std::size_t l = 0; l < c.k; ++l) {
    const double term = c.scale * a.at(i, l) * b.at(l, j);
    sum += term;
    magnitude += std::abs(term);
  }
  const double error = std::abs(found - sum) / magnitude;
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

/// Checks that a product agrees with a triple loop and writes nothing outside of the result.
template <class T>
void check_product(Gemm<T> gemm_function, const Case& c) {
  CAPTURE(c.m);
  CAPTURE(c.n);
  CAPTURE(c.k);
  CAPTURE(c.a_transposed);
  CAPTURE(c.b_transposed);
  CAPTURE(c.add);
  CAPTURE(c.biased);
  const Matrix<T> a(c.m, c.k, c.a_transposed, c.padding, 1.0);
  const Matrix<T> b(c.k, c.n, c.b_transposed, c.padding, 2.0);
  const std::size_t stride = c.n + c.padding;
  const std::vector<T> out = product_of(gemm_function, c, a, b);
  double worst = 0.0;
  bool guarded = out.back() == T(77);
  for (std::size_t i = 0; i < c.m; ++i) {
    for (std::size_t j = 0; j < c.n; ++j) {
      const auto found = static_cast<double>(out[i * stride + j]);
      worst = std::max(worst, relative_error(found, c, a, b, i, j));
    }
    for (std::size_t j = c.n; j < stride; ++j) guarded = guarded && out[i * stride + j] == T(77);
  }
  CHECK(guarded);
  CHECK(worst <=
        static_cast<double>(std::numeric_limits<T>::epsilon()) * (2.0 + static_cast<double>(c.k)));
}

}  // namespace

namespace {

template <class T>
void check_all_transpositions(std::size_t m, std::size_t n, std::size_t k) {
  for (const Gemm<T> gemm_function :
       {Gemm<T>(gemm<T>), Gemm<T>(gemm_serial<T>), Gemm<T>(by_packed<T>), Gemm<T>(openblas_gemm<T>),
        Gemm<T>(openblas_gemm_serial<T>)}) {
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

TEST_CASE("tall and wide products larger than a split agree with triple loops") {
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

TEST_CASE("gemm with an inner extent of 0 writes zeros, or adds nothing") {
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
         {Gemm<double>(gemm<double>), Gemm<double>(gemm_serial<double>),
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

TEST_CASE("gemm is bit-identical on any number of threads") {
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

TEST_CASE("the bits of an element of a gemm result do not depend on the other rows and columns") {
  if (matmul_in_use() == Matmul::openblas) return;  // its rounding depends on the number of rows
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

TEST_CASE("gemm_serial works inside the pieces of parallel_for") {
  const tapestry::test::Threads count(2);
  constexpr std::size_t n = 70;
  const Matrix<float> a(n, n, false, 0, 1.0);
  std::vector<std::vector<float>> results(6, std::vector<float>(n * n));
  parallel_for(results.size(), [&](std::size_t i) {
    gemm_serial<float>(n, n, n, 1.0F, a.operand(), a.operand(), {results[i].data()}, n);
  });
  for (const auto& result : results) CHECK(result == results[0]);
}

/// Tests products with sizes near the sizes of tiles and blocks. Tiles have 12 (or 6) rows and two
/// vectors; blocks have 256 elements along k and the rows of 16 tiles.
namespace {

/// Checks all functions for matrix products and all transpositions. Products are first written to
/// dense rows, then scaled, with a bias, and added to rows with gaps.
template <class T>
void check_own(std::size_t m, std::size_t n, std::size_t k) {
  for (const Gemm<T> product : own_products<T>) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        check_product<T>(product, {m, n, k, a_transposed, b_transposed});
        check_product<T>(product, {m, n, k, a_transposed, b_transposed, true, 5, -1.5, true});
      }
    }
  }
}

template <class T>
void check_heights() {
  const std::size_t n = tile_width<T> + 3;
  for (std::size_t m = 1; m <= tile_height + 1; ++m) check_own<T>(m, n, 20);
  for (const std::size_t m : {23, 24, 25, 95, 96, 97, 191, 192}) check_own<T>(m, n, 20);
  for (const std::size_t m : {193, 205}) check_own<T>(m, n, 259);
}

template <class T>
void check_widths() {
  for (const std::size_t vectors : {1, 2, 4, 6}) {
    const std::size_t width = vectors * lanes<T>;
    for (const std::size_t n : {width - 1, width, width + 1}) {
      for (const std::size_t m : {5, 36, 37}) check_own<T>(m, n, 19);
    }
  }
}

/// Checks products of all kinds with one block of k and with several blocks.
template <class T>
void check_blocks_of_k() {
  for (const std::size_t k : {1, 255, 256, 257, 511, 512, 513}) {
    for (const Gemm<T> product : own_products<T>) {
      for (const bool add : {false, true}) {
        for (const bool biased : {false, true}) {
          check_product<T>(product, {13, 35, k, false, false, add, 0, 0.5, biased});
          check_product<T>(product, {13, 35, k, true, true, add, 2, 0.5, biased});
        }
      }
    }
  }
}

/// The positions in `out` (m, n) that are NaN.
std::vector<std::size_t> nan_places(const std::vector<float>& out) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (std::isnan(out[i])) places.push_back(i);
  }
  return places;
}

}  // namespace

TEST_CASE(
    "gemm agrees with triple loops for sizes around the heights of tiles and of blocks of rows") {
  check_heights<float>();
  check_heights<double>();
}

TEST_CASE("gemm of a full block of rows, packed for many panels, is correct and stays in bounds") {
  for (const bool transposed : {false, true}) {
    for (const std::size_t k : {256, 257}) {
      check_product<float>(gemm_serial<float>,
                           {16 * tile_height, 8 * tile_width<float> + 1, k, transposed});
      check_product<double>(gemm_serial<double>,
                            {16 * tile_height, 8 * tile_width<double> + 1, k, transposed});
    }
  }
}

TEST_CASE(
    "gemm agrees with triple loops for sizes around the widths of tiles, with b packed and not "
    "packed") {
  check_widths<float>();
  check_widths<double>();
}

TEST_CASE(
    "gemm with a bias, written or added, agrees with triple loops for sizes around blocks of k") {
  check_blocks_of_k<float>();
  check_blocks_of_k<double>();
}

TEST_CASE("gemm is bit-identical with a right operand that was packed beforehand") {
  if (sizeof(Vec<float>) < 32) return;  // BLAS computes the product and may round differently
  for (const std::size_t m : {1, 36, 37, 200}) {
    for (const bool transposed : {false, true}) {
      CAPTURE(m);
      const Case c{m, 77, 300, transposed, transposed, true, 3, -1.5, true};
      const Matrix<float> a(c.m, c.k, transposed, c.padding, 1.0);
      const Matrix<float> b(c.k, c.n, transposed, c.padding, 2.0);
      const auto expected = product_of<float>(by_packed<float>, c, a, b);
      CHECK(product_of<float>(gemm<float>, c, a, b) == expected);
      CHECK(product_of<float>(gemm_serial<float>, c, a, b) == expected);
    }
  }
}

TEST_CASE("gemm: NaN in a row of a or a column of b affects only that row or column") {
  constexpr std::size_t m = 25, n = 67, k = 260;
  for (const Gemm<float> product : own_products<float>) {
    for (const bool transposed : {false, true}) {
      Matrix<float> a(m, k, transposed, 0, 1.0), b(k, n, transposed, 0, 2.0);
      const Case c{m, n, k, transposed, transposed};
      const auto set_nan = [](Matrix<float>& x, std::size_t i, std::size_t j) {
        x.data[x.transposed ? j * x.stride + i : i * x.stride + j] =
            std::numeric_limits<float>::quiet_NaN();
      };
      for (const std::size_t bad : {0, 12, 24}) {
        Matrix<float> broken = a;
        set_nan(broken, bad, 258);
        auto out = product_of(product, c, broken, b);
        std::vector<std::size_t> expected;
        for (std::size_t j = 0; j < n; ++j) expected.push_back(bad * n + j);
        CHECK(nan_places(out) == expected);
      }
      for (const std::size_t bad : {0, 32, 63, 66}) {
        Matrix<float> broken = b;
        set_nan(broken, 3, bad);
        auto out = product_of(product, c, a, broken);
        std::vector<std::size_t> expected;
        for (std::size_t i = 0; i < m; ++i) expected.push_back(i * n + bad);
        CHECK(nan_places(out) == expected);
      }
    }
  }
}

TEST_CASE("gemm with tiles that shrink and grow again uses memory of the right size") {
  for (const std::size_t k : {700, 3, 900}) {
    for (const std::size_t n : {5, 170, 40}) check_own<float>(14, n, k);
  }
}
