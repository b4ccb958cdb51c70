// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "autograd/ids.h"
#include "autograd/tensor.h"

namespace tapestry {

/// The parts of x at the given indices of an axis, like torch.index_select or numpy.take: for x of
/// shape (n, d), index_select(x, 0, Ids::from({4, 1})) has rows 4 and 1. `x[ids]` is the same for
/// axis 0. Copies.
///
/// axis     counted from the front, or from the back if negative.
/// index    (...), each in [0, extent of the axis); it need not outlive the call.
/// returns  x's shape with the axis replaced by the axes of index.
/// throws   ValueError if the axis does not exist or an index is out of range, ShapeError if the
///          result would have more than the maximum rank.
///
/// dL/dx at index i = sum of dL/dy over all places of i in `index`, in row-major order; 0 at other
/// indices.
Tensor index_select(const Tensor& x, std::ptrdiff_t axis, const Ids& index);

/// One element of x for each element of index, like torch.gather. For two axes and axis 1:
/// y[i][j] = x[i][index[i][j]]; for axis 0: y[i][j] = x[index[i][j]][j].
///
/// axis     counted from the front, or from the back if negative.
/// index    the rank of x, each extent at most the extent of x except along `axis`; each index in
///          [0, extent of the axis). It need not outlive the call.
/// returns  the shape of index.
/// throws   ValueError if the axis does not exist or an index is out of range, ShapeError if the
///          shapes do not match.
///
/// dL/dx at an element = sum of dL/dy over all places that read it, in row-major order; 0 at
/// elements that are not read.
Tensor gather(const Tensor& x, std::ptrdiff_t axis, const Ids& index);

/// The k largest values along an axis, in descending order, and their indices.
struct TopK {
  Tensor values;  ///< x's shape with an extent of k at the axis
  Ids indices;    ///< indices along the axis, in the same shape
};

/// The k largest elements along an axis, in descending order; equal elements keep their order. NaN
/// counts as larger than any number. topk(-x, k) gives the indices of the k smallest elements.
///
/// k        in [1, extent of the axis].
/// axis     counted from the front, or from the back if negative.
/// throws   ValueError if the axis does not exist or k is out of range.
///
/// dL/dx = dL/dvalues at the elements that were chosen and 0 elsewhere.
TopK topk(const Tensor& x, std::size_t k, std::ptrdiff_t axis = -1);

/// topk(log_softmax(x), k) over the last axis, without storing log_softmax(x): the most likely
/// classes of logits x and their log-probabilities. For inference: not differentiable.
///
/// x        (..., n) logits.
/// k        in [1, n].
/// throws   ShapeError if x is a scalar, ValueError if k is out of range or if a tape records x.
TopK topk_log_softmax(const Tensor& x, std::size_t k);

/// A vector for each id that is 1 at the id and 0 elsewhere, like torch.nn.functional.one_hot.
///
/// ids      (...), each in [0, classes).
/// returns  (..., classes); it does not require a gradient.
/// throws   ValueError if an id is out of range.
Tensor one_hot(const Ids& ids, std::size_t classes, DType dtype = DType::float32);

/// Converts a tensor to ids, like x.long() in PyTorch, for example the class column of a CSV file:
/// to_ids(select(table, 1, 0)).
///
/// x        (...), whole numbers in [-2^31, 2^31).
/// returns  (...).
/// throws   ValueError, with the position, for any other value.
Ids to_ids(const Tensor& x);

/// Converts ids to a tensor of the same shape, like ids.float() in PyTorch; it does not require a
/// gradient.
Tensor to_tensor(const Ids& ids, DType dtype = DType::float32);

/// Looks up a vector for each id: y[i] = scale * weight[ids[i]], for each index i of ids.
///
/// weight      (vocabulary, d).
/// ids         (...), each in [0, vocabulary); they need not outlive the call.
/// padding_id  row of weight without a gradient; it is looked up like any other row.
/// scale       factor of the vectors, such as sqrt(d) [1].
/// returns     (..., d).
/// throws      ShapeError if weight does not have two axes, ValueError if an id is out of range.
///
/// dL/dweight[v] = scale * sum of dL/dy[i] over all i with ids[i] = v, in row-major order.
///
/// [1] Vaswani et al. 2017, "Attention is all you need", section 3.4.
Tensor embedding(const Tensor& weight, const Ids& ids,
                 std::optional<std::int32_t> padding_id = std::nullopt, double scale = 1.0);

/// Concatenates the vectors of all sequences, without padding.
///
/// x        (batch, n, d); in sequence b, positions from lengths[b] on are padding
/// lengths  (batch), >= 0; they need not outlive the call
/// returns  (the sum of lengths, each at most n, d)
/// throws   ShapeError if x does not have three axes or lengths does not have batch elements,
///          ValueError if a length is negative.
///
/// dL/dx = dL/dy at the positions of sequences and 0 in padding.
Tensor pack_padded(const Tensor& x, std::span<const std::int32_t> lengths);

/// The inverse of `pack_padded`: padding is 0.
///
/// y        (the sum of lengths, each at most n, d)
/// lengths  (batch), >= 0; they need not outlive the call
/// n        number of positions of every sequence, including padding
/// returns  (batch, n, d)
/// throws   ShapeError if y does not have two axes or the number of vectors is not the sum of
///          lengths, ValueError if a length is negative.
///
/// dL/dy = dL/dx without padding.
Tensor pad_packed(const Tensor& y, std::span<const std::int32_t> lengths, std::size_t n);

}  // namespace tapestry
