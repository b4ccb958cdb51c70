#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "autograd/kernels/simd.h"

/// Loops that update several arrays in place, one SIMD vector at a time.
namespace tapestry::kernels {

/// The last n < lanes values of an array, padded with zeros to a full vector. Unless T is const,
/// the destructor writes them back to the array.
template <class T>
class PaddedTail {
 public:
  PaddedTail(T* tail, std::size_t n) : tail_(tail), n_(n) { std::copy_n(tail, n, vector_); }
  ~PaddedTail() {
    if constexpr (!std::is_const_v<T>) std::copy_n(vector_, n_, tail_);
  }
  PaddedTail(const PaddedTail&) = delete;
  PaddedTail& operator=(const PaddedTail&) = delete;

  T* data() { return vector_; }

 private:
  using Element = std::remove_const_t<T>;
  T* tail_;
  std::size_t n_;
  alignas(64) Element vector_[lanes<Element>] = {};
};

/// Calls update(g, a...) for all n elements, with pointers to `lanes` elements of the gradient and
/// of each array. The update of an element must not depend on other elements.
template <class T, class Update, class... Element>
void update_vectors(std::size_t n, Update&& update, const T* gradient, Element*... arrays) {
  const std::size_t full = n - n % lanes<T>;
  for (std::size_t i = 0; i < full; i += lanes<T>) update(gradient + i, (arrays + i)...);
  if (full == n) return;
  update(PaddedTail<const T>(gradient + full, n - full).data(),
         PaddedTail<T>(arrays + full, n - full).data()...);
}

/// `value` with subnormal numbers replaced by 0. Otherwise state that decays, such as the moments
/// of an embedding row whose word no longer occurs, becomes subnormal, and arithmetic on subnormal
/// numbers is slow: a step of Adam was measured to take 25 times as long.
template <class T>
Vec<T> without_subnormals(const Vec<T>& value) {
  const Vec<T> smallest(std::numeric_limits<T>::min());
  return xsimd::select(xsimd::abs(value) < smallest, Vec<T>(T(0)), value);
}

}  // namespace tapestry::kernels
