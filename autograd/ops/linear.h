// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "autograd/execution_context.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Affine map of the last axis: y = x W^T + b.
///
/// x        (..., in)
/// weight   (out, in)
/// bias     (out), or Tensor() to add no bias
/// returns  (..., out)
/// throws   ShapeError if x is a scalar or the extents do not match, DTypeError if the types
///          differ.
///
/// dL/dx = g W, dL/dW = g^T x and dL/db = sum of the rows of g, for g = dL/dy as a matrix with rows
/// along the last axis.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = Tensor());

/// A linear map for each head: y_h = x_h W_h^T, with the heads side by side in the last axis.
/// Applied to the queries it turns the dot product with the keys into the bilinear score
/// <k, W q> [1].
///
/// x        (..., num_heads * in)
/// weight   (num_heads, out, in)
/// returns  (..., num_heads * out)
/// throws   ShapeError if the extents do not match, DTypeError if the types differ.
///
/// dL/dx_h = g_h W_h and dL/dW_h = g_h^T x_h, for g_h = dL/dy_h as a matrix with rows along the
/// last axis.
///
/// [1] Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation",
/// section 3.1, "general".
Tensor head_linear(const Tensor& x, const Tensor& weight);

/// Options of `matmul`. The member initializers are the defaults.
struct MatmulOptions {
  bool transpose_a = false;  ///< whether the last two axes of a are swapped first
  bool transpose_b = false;  ///< whether the last two axes of b are swapped first
  double scale = 1.0;        ///< factor of the product
};

/// Matrix product over the last two axes: y = scale * op(a) op(b), where op(a) and op(b) are
/// transposed according to the options.
///
/// a        (..., m, k), or (..., k, m) with transpose_a
/// b        (..., k, n), or (..., n, k) with transpose_b
/// returns  (..., m, n); the leading axes broadcast as in `add`.
/// throws   ShapeError if an operand has fewer than two axes or the extents do not match,
///          DTypeError if the element types differ.
///
/// For C = s A B: dL/dA = s g B^T and dL/dB = s A^T g, summed over the broadcast axes of the
/// operand; the gradient of a transposed operand is transposed.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

/// Keeps copies of the weights of linear() in the order that matrix products read, for
/// inference that applies the same weights to few rows many times. Results have the same bits. The
/// copies double the memory of the weights and exist as long as this object; weights must not
/// change during its lifetime.
///
///     const PackedWeights packed;
///     while (...) decoder->extend(tokens);
///
/// Affects only the thread that created it. PackedWeights nest; the outermost one keeps the copies.
/// Threads that apply the same weights can share the copies:
///
///     PackedWeights* const outer = execution_context().packed_weights;
///     parallel_for(parts, [&](std::size_t i) {
///       const PackedWeights packed(outer);
///       ...
///     });
class PackedWeights {
 public:
  /// Becomes active, unless the thread already has active PackedWeights.
  ///
  /// outer  the PackedWeights to use during the lifetime of this object, of this thread or of
  ///        another thread; null: this object itself
  explicit PackedWeights(PackedWeights* outer = execution_context().packed_weights)
      : active_(outer != nullptr ? outer : this) {}

  /// For operations: the copy of a weight, made by `pack` at its first use. All calls for one
  /// weight must have the same type `Packed`. Thread-safe.
  template <class Packed, class Pack>
  std::shared_ptr<const Packed> find(const Tensor& weight, const Pack& pack) {
    const void* const key = weight.memory().data() + weight.byte_offset();
    const auto find_copy = [&]() -> std::shared_ptr<const Packed> {
      const auto found = copies_.find(key);
      if (found == copies_.end() || found->second.weight.shape() != weight.shape()) return nullptr;
      return std::static_pointer_cast<const Packed>(found->second.packed);
    };
    {
      const std::shared_lock lock(mutex_);
      if (auto copy = find_copy()) return copy;
    }
    const std::unique_lock lock(mutex_);
    if (auto copy = find_copy()) return copy;  // another thread made the copy in between
    auto copy = std::make_shared<const Packed>(pack());
    copies_.insert_or_assign(key, Copy{weight, copy});
    return copy;
  }

 private:
  struct Copy {
    Tensor weight;  // kept alive so that its address is not reused
    std::shared_ptr<const void> packed;
  };

  ContextGuard<&ExecutionContext::packed_weights> active_;
  std::shared_mutex mutex_;  // guards copies_
  std::unordered_map<const void*, Copy> copies_;
};

}  // namespace tapestry
