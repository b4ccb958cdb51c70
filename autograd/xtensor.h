// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xnoalias.hpp>

#include "autograd/ids.h"
#include "autograd/tensor.h"

/// \file
/// Conversion between tensors and xtensor. It takes seconds to compile; include it only in source
/// files.
namespace tapestry {
namespace detail {

/// The shape of a tensor, ids or an expression, in the type that xtensor functions take.
template <class S>
std::vector<std::size_t> extents(const S& shape) {
  return {shape.begin(), shape.end()};
}

/// An adaptor of the tensor's values, which start at `data`; it owns a handle of the tensor.
template <class T>
auto adapted(T* data, const Tensor& tensor) {
  return xt::adapt_smart_ptr<xt::layout_type::row_major>(std::move(data), extents(tensor.shape()),
                                                         std::make_shared<const Tensor>(tensor));
}

}  // namespace detail

/// The values of a tensor as an xtensor adaptor with its shape, without a copy: an operand of any
/// xtensor expression. The adaptor keeps the values alive, so the tensor may be a temporary, such
/// as a gradient:
///
///     const auto gradient = as_xtensor<float>(weight.grad());
///     const double norm = xt::norm_l2(gradient)();
///
/// throws  DTypeError if T is not the element type, ValueError if the tensor is empty.
template <class T>
auto as_xtensor(const Tensor& tensor) {
  return detail::adapted(tensor.values<T>().data(), tensor);
}

/// A writable adaptor of the values of a leaf that no tape uses, see Tensor::mutable_values. A step
/// of gradient descent:
///
///     as_mutable_xtensor<float>(weight) -= 0.1F * as_xtensor<float>(weight.grad());
///
/// An assigned expression must have the shape of the tensor.
template <class T>
auto as_mutable_xtensor(Tensor& tensor) {
  return detail::adapted(tensor.mutable_values<T>().data(), tensor);
}

/// A tensor with the values of any xtensor expression, converted to `dtype`. The expression is
/// evaluated once, into the memory of the tensor.
template <class E>
Tensor to_tensor(const xt::xexpression<E>& expression, DType dtype = DType::float32) {
  const E& values = expression.derived_cast();
  Tensor result = Tensor::empty(Shape(detail::extents(values.shape())), dtype);
  dispatch(dtype, [&]<class T>() {
    auto target = as_mutable_xtensor<T>(result);
    xt::noalias(target) = xt::cast<T>(values);
  });
  return result;
}

/// The ids as an xtensor view, which must not outlive them.
inline auto as_xtensor(const Ids& ids) {
  return xt::adapt(ids.data(), ids.size(), xt::no_ownership(), detail::extents(ids.shape()));
}

/// Ids with the values of an xtensor expression of whole numbers.
template <class E>
Ids to_ids(const xt::xexpression<E>& expression) {
  const xt::xarray<std::int32_t, xt::layout_type::row_major> values = expression.derived_cast();
  return Ids(Shape(detail::extents(values.shape())),
             std::vector<std::int32_t>(values.begin(), values.end()));
}

}  // namespace tapestry
