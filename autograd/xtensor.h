#pragma once

#include <vector>
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>

#include "autograd/ids.h"
#include "autograd/tensor.h"

/// Conversion between tensors and xtensor. It takes seconds to compile; include it only in source
/// files.
namespace tapestry {

/// The values of a tensor as an xtensor view, which must not outlive the tensor. Throws DTypeError
/// if T is not the element type.
template <class T>
auto as_xtensor(const Tensor& tensor) {
  const auto values = tensor.values<T>();
  return xt::adapt(values.data(), values.size(), xt::no_ownership(),
                   std::vector<std::size_t>(tensor.shape().begin(), tensor.shape().end()));
}

/// A tensor with the values of an xtensor expression, converted to `dtype`.
template <class E>
Tensor to_tensor(const xt::xexpression<E>& expression, DType dtype) {
  const xt::xarray<double, xt::layout_type::row_major> values = expression.derived_cast();
  const std::vector<std::size_t> extents(values.shape().begin(), values.shape().end());
  return Tensor::from(Shape(extents), std::span<const double>(values.data(), values.size()), dtype);
}

/// The ids as an xtensor view, which must not outlive them.
inline auto as_xtensor(const Ids& ids) {
  return xt::adapt(ids.data(), ids.size(), xt::no_ownership(),
                   std::vector<std::size_t>(ids.shape().begin(), ids.shape().end()));
}

/// Ids of an xtensor expression of whole numbers.
template <class E>
Ids to_ids(const xt::xexpression<E>& expression) {
  const xt::xarray<std::int32_t, xt::layout_type::row_major> values = expression.derived_cast();
  const std::vector<std::size_t> extents(values.shape().begin(), values.shape().end());
  return Ids(Shape(extents), std::vector<std::int32_t>(values.begin(), values.end()));
}

}  // namespace tapestry
