#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "autograd/kernels/gemm.h"
#include "autograd/kernels/gemm_tile.h"
#include "autograd/kernels/simd.h"
#include "tests/autograd/kernels/product_check.h"

using namespace tapestry::kernels;
using namespace tapestry::kernels::test;

/// Products around the sizes of the tiles and blocks that they are computed in: tiles of 12 (or 6)
/// rows and two vectors, over blocks of 256 along k and of 16 tiles' rows.
namespace {

/// Every product of our own, for all transpositions, written to dense rows, and scaled and added
/// with a bias to rows that stand apart.
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

/// Products of all kinds in one block of k and in several.
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

/// The places of `out` (m, n) that are NaN.
std::vector<std::size_t> nan_places(const std::vector<float>& out) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (std::isnan(out[i])) places.push_back(i);
  }
  return places;
}

}  // namespace

TEST_CASE("gemm agrees with triple loops around the heights of tiles and blocks of rows") {
  check_heights<float>();
  check_heights<double>();
}

TEST_CASE("gemm of a full block of rows, packed for many panels, has room and is right") {
  for (const bool transposed : {false, true}) {
    for (const std::size_t k : {256, 257}) {
      check_product<float>(gemm_here<float>,
                           {16 * tile_height, 8 * tile_width<float> + 1, k, transposed});
      check_product<double>(gemm_here<double>,
                            {16 * tile_height, 8 * tile_width<double> + 1, k, transposed});
    }
  }
}

TEST_CASE("gemm agrees with triple loops around the widths of tiles, b packed or not") {
  check_widths<float>();
  check_widths<double>();
}

TEST_CASE("gemm agrees with triple loops around blocks of k, with a bias, written and added") {
  check_blocks_of_k<float>();
  check_blocks_of_k<double>();
}

TEST_CASE("gemm has the same bits with a right operand that was packed beforehand") {
  if (sizeof(Vec<float>) < 32) return;  // BLAS does the work, and promises nothing
  for (const std::size_t m : {1, 36, 37, 200}) {
    for (const bool transposed : {false, true}) {
      CAPTURE(m);
      const Case c{m, 77, 300, transposed, transposed, true, 3, -1.5, true};
      const Matrix<float> a(c.m, c.k, transposed, c.padding, 1.0);
      const Matrix<float> b(c.k, c.n, transposed, c.padding, 2.0);
      const auto expected = product_of<float>(by_packed<float>, c, a, b);
      CHECK(product_of<float>(gemm<float>, c, a, b) == expected);
      CHECK(product_of<float>(gemm_here<float>, c, a, b) == expected);
    }
  }
}

TEST_CASE("gemm: NaN in a row of a or a column of b affects that row or column alone") {
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
