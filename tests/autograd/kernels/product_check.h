#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "autograd/instruction_set.h"
#include "autograd/kernels/gemm.h"

/// What the tests of matrix products share.
namespace tapestry::kernels::test {

/// Uneven values. What stands between the rows and behind the last one is NaN: a product must not
/// see it, not even times 0.
template <class T>
struct Matrix {
  std::size_t rows, columns, stride;
  bool transposed;  ///< stored (columns, rows)
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

/// A product with its right operand laid out beforehand.
template <class T>
void by_packed(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,
               Target<T> out, std::size_t out_stride, const T* bias) {
  use_kernels(TAPESTRY_INSTRUCTION_SET);  // lays out its operand
  gemm_packed<T>(m, scale, a, PackedOperand<T>(k, n, b), out, out_stride, bias);
}

/// Every product of our own.
template <class T>
const std::vector<Gemm<T>> own_products = {gemm<T>, gemm_here<T>, by_packed<T>};

struct Case {
  std::size_t m, n, k;
  bool a_transposed = false, b_transposed = false, add = false;
  std::size_t padding = 0;  ///< elements between the rows of a, of b and of the result
  double scale = 1.0;
  bool biased = false;
};

/// Column j of a bias.
inline double bias_at(std::size_t j) { return 0.25 * static_cast<double>(j % 7) - 0.5; }

/// The result in rows of n + padding values, in between and behind which is 77; 0.5 is added to.
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

/// How far element (i, j) is from the sum over k, as a part of its terms; infinite for NaN.
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

/// Checks one product against a triple loop, and that nothing beside the result is written to.
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

}  // namespace tapestry::kernels::test
