// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "autograd/kernels/attention.h"
#include "autograd/kernels/attention_tile.h"
#include "autograd/kernels/broadcast.h"
#include "autograd/kernels/copy.h"
#include "autograd/kernels/cross_entropy.h"
#include "autograd/kernels/dropout.h"
#include "autograd/kernels/elementwise.h"
#include "autograd/kernels/gated.h"
#include "autograd/kernels/gemm.h"
#include "autograd/kernels/norms.h"
#include "autograd/kernels/optimizer_update.h"
#include "autograd/kernels/philox.h"
#include "autograd/kernels/reduce.h"
#include "autograd/kernels/rotary.h"
#include "autograd/kernels/softmax.h"

/// The kernels that other code calls: result, name, parameters and arguments of each. They are
/// compiled for every instruction set and called through the table of the set in use, which is
/// chosen when the program starts (autograd/instruction_set.h). A kernel is declared in its own
/// header, in TAPESTRY_KERNELS_NAMESPACE, and registered here.

/// Kernels with an element type T, float or double.
#define TAPESTRY_KERNELS_OF(T, KERNEL)                                                             \
  KERNEL(T, void, adam_update,                                                                     \
         (std::size_t n, const AdamCoefficients& c, const T* g, T* p, T* m, T* v),                 \
         (n, c, g, p, m, v))                                                                       \
  KERNEL(T, void, attention,                                                                       \
         (const AttentionProblem& problem, const AttentionOperands<T>& operands, T* out, T* saved, \
          const AttentionSteps<T>* steps),                                                         \
         (problem, operands, out, saved, steps))                                                   \
  KERNEL(T, void, attention_backward,                                                              \
         (const AttentionProblem& problem, const AttentionOperands<T>& operands, const T* g,       \
          const T* saved, const AttentionTargets<T>& targets,                                      \
          const AttentionGradientSteps<T>* steps),                                                 \
         (problem, operands, g, saved, targets, steps))                                            \
  KERNEL(T, void, attention_weights,                                                               \
         (const AttentionProblem& problem, const AttentionOperands<T>& operands, T* weights),      \
         (problem, operands, weights))                                                             \
  KERNEL(T, void, average_update, (std::size_t n, double decay, const T* p, T* average),           \
         (n, decay, p, average))                                                                   \
  KERNEL(T, void, batch_norm,                                                                      \
         (std::size_t rows, std::size_t n, const T* x, const T* means, const T* variances,         \
          const T* weight, const T* bias, T epsilon, T* y),                                        \
         (rows, n, x, means, variances, weight, bias, epsilon, y))                                 \
  KERNEL(T, void, batch_norm_backward,                                                             \
         (Moments moments, std::size_t rows, std::size_t n, const T* x, const T* means,            \
          const T* variances, const T* weight, T epsilon, const T* g, Target<T> dx,                \
          Target<T> dweight, Target<T> dbias),                                                     \
         (moments, rows, n, x, means, variances, weight, epsilon, g, dx, dweight, dbias))          \
  KERNEL(T, void, broadcast_binary,                                                                \
         (const Function<Binary>& f, const BroadcastPlan& plan, T* y, const T* a, const T* b),     \
         (f, plan, y, a, b))                                                                       \
  KERNEL(T, void, column_moments,                                                                  \
         (std::size_t rows, std::size_t n, const T* x, T* means, T* variances),                    \
         (rows, n, x, means, variances))                                                           \
  KERNEL(T, void, copy_rows,                                                                       \
         (std::size_t rows, std::size_t n, const T* in, std::size_t in_stride, Target<T> out,      \
          std::size_t out_stride),                                                                 \
         (rows, n, in, in_stride, out, out_stride))                                                \
  KERNEL(T, CrossEntropySums, cross_entropy,                                                       \
         (const CrossEntropyProblem& problem, const T* logits, LogSumExp<T>* log_sums),            \
         (problem, logits, log_sums))                                                              \
  KERNEL(T, void, cross_entropy_backward,                                                          \
         (const CrossEntropyProblem& problem, const T* logits, const LogSumExp<T>* log_sums, T g,  \
          Target<T> dlogits),                                                                      \
         (problem, logits, log_sums, g, dlogits))                                                  \
  KERNEL(T, void, cumulative_sum,                                                                  \
         (Direction direction, std::size_t outer, std::size_t extent, std::size_t inner,           \
          const T* in, Target<T> out),                                                             \
         (direction, outer, extent, inner, in, out))                                               \
  KERNEL(T, void, dropout,                                                                         \
         (std::uint64_t key, std::uint64_t first, std::size_t n, double rate, const T* x,          \
          Target<T> y),                                                                            \
         (key, first, n, rate, x, y))                                                              \
  KERNEL(T, void, dropout_add,                                                                     \
         (std::uint64_t key, std::uint64_t first, std::size_t n, double rate, const T* residual,   \
          const T* x, T* y),                                                                       \
         (key, first, n, rate, residual, x, y))                                                    \
  KERNEL(T, void, embedding,                                                                       \
         (std::span<const std::int32_t> ids, std::size_t d, double scale, const T* weight, T* y),  \
         (ids, d, scale, weight, y))                                                               \
  KERNEL(T, void, embedding_backward,                                                              \
         (std::span<const std::int32_t> ids, std::size_t vocabulary, std::size_t d,                \
          std::optional<std::int32_t> padding_id, double scale, const T* dy, Target<T> dweight),   \
         (ids, vocabulary, d, padding_id, scale, dy, dweight))                                     \
  KERNEL(T, void, expand,                                                                          \
         (std::span<const std::size_t> extents, std::span<const std::size_t> in_extents,           \
          double factor, const T* in, Target<T> out),                                              \
         (extents, in_extents, factor, in, out))                                                   \
  KERNEL(T, void, gated, (Gate gate, std::size_t rows, std::size_t n, const T* x, T* y),           \
         (gate, rows, n, x, y))                                                                    \
  KERNEL(T, void, gated_backward,                                                                  \
         (Gate gate, std::size_t rows, std::size_t n, const T* x, const T* g, Target<T> dx),       \
         (gate, rows, n, x, g, dx))                                                                \
  KERNEL(T, void, gather, (std::span<const std::size_t> positions, const T* x, T* y),              \
         (positions, x, y))                                                                        \
  KERNEL(T, void, gather_backward,                                                                 \
         (std::span<const std::size_t> positions, std::size_t block, const T* dy, std::size_t n,   \
          Target<T> dx),                                                                           \
         (positions, block, dy, n, dx))                                                            \
  KERNEL(T, void, gemm,                                                                            \
         (std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,        \
          Target<T> out, std::size_t out_stride, const T* bias),                                   \
         (m, n, k, scale, a, b, out, out_stride, bias))                                            \
  KERNEL(T, void, gemm_serial,                                                                     \
         (std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,        \
          Target<T> out, std::size_t out_stride, const T* bias),                                   \
         (m, n, k, scale, a, b, out, out_stride, bias))                                            \
  KERNEL(T, void, gemm_packed,                                                                     \
         (std::size_t m, T scale, Operand<T> a, const PackedOperand<T>& b, Target<T> out,          \
          std::size_t out_stride, const T* bias),                                                  \
         (m, scale, a, b, out, out_stride, bias))                                                  \
  KERNEL(T, void, layer_norm,                                                                      \
         (std::size_t rows, std::size_t n, const T* x, const T* weight, const T* bias, T epsilon,  \
          T* y, T* means, T* rstds),                                                               \
         (rows, n, x, weight, bias, epsilon, y, means, rstds))                                     \
  KERNEL(T, void, layer_norm_backward,                                                             \
         (std::size_t rows, std::size_t n, const T* x, const T* weight, const T* means,            \
          const T* rstds, const T* g, Target<T> dx, Target<T> dweight, Target<T> dbias),           \
         (rows, n, x, weight, means, rstds, g, dx, dweight, dbias))                                \
  KERNEL(T, CrossEntropySums, linear_cross_entropy,                                                \
         (const LinearCrossEntropyProblem<T>& problem, double factor,                              \
          const LinearCrossEntropyGradients<T>& gradients),                                        \
         (problem, factor, gradients))                                                             \
  KERNEL(T, void, log_softmax_row, (std::size_t n, const T* x, T* y), (n, x, y))                   \
  KERNEL(T, void, log_softmax_row_backward,                                                        \
         (std::size_t n, const T* y, const T* dy, Target<T> dx), (n, y, dy, dx))                   \
  KERNEL(T, LogSumExp<T>, log_sum_exp, (std::size_t n, const T* x), (n, x))                        \
  KERNEL(T, void, map_binary,                                                                      \
         (const Function<Binary>& f, std::size_t n, Target<T> y, const T* a, const T* b),          \
         (f, n, y, a, b))                                                                          \
  KERNEL(T, void, map_unary, (const Function<Unary>& f, std::size_t n, Target<T> y, const T* x),   \
         (f, n, y, x))                                                                             \
  KERNEL(T, void, max_middle_axis,                                                                 \
         (std::size_t outer, std::size_t extent, std::size_t inner, const T* in, T* out,           \
          std::size_t* where),                                                                     \
         (outer, extent, inner, in, out, where))                                                   \
  KERNEL(T, void, max_middle_axis_backward,                                                        \
         (std::size_t outer, std::size_t extent, std::size_t inner, const std::size_t* where,      \
          const T* dy, Target<T> dx),                                                              \
         (outer, extent, inner, where, dy, dx))                                                    \
  KERNEL(T, Memory, pack_operand, (std::size_t k, std::size_t n, Operand<T> b), (k, n, b))         \
  KERNEL(T, void, pad_rows,                                                                        \
         (std::size_t rows, std::size_t n, const T* in, std::size_t first, Target<T> out,          \
          std::size_t out_n),                                                                      \
         (rows, n, in, first, out, out_n))                                                         \
  KERNEL(T, void, permute,                                                                         \
         (std::span<const std::size_t> extents, std::span<const std::size_t> axes, const T* in,    \
          Target<T> out),                                                                          \
         (extents, axes, in, out))                                                                 \
  KERNEL(T, void, relu_dropout,                                                                    \
         (std::uint64_t key, std::uint64_t first, std::size_t n, double rate, const T* x, T* y),   \
         (key, first, n, rate, x, y))                                                              \
  KERNEL(T, void, residual_add,                                                                    \
         (std::uint64_t key, std::uint64_t first, std::size_t n, double rate, T skip,              \
          const RowFactors<T>& rows, const T* residual, const T* x, T* y),                         \
         (key, first, n, rate, skip, rows, residual, x, y))                                        \
  KERNEL(T, void, residual_add_backward,                                                           \
         (std::uint64_t key, std::uint64_t first, std::size_t n, double rate,                      \
          const RowFactors<T>& rows, const T* g, Target<T> dx),                                    \
         (key, first, n, rate, rows, g, dx))                                                       \
  KERNEL(T, void, rms_norm,                                                                        \
         (std::size_t rows, std::size_t n, const T* x, const T* weight, T epsilon, T* y, T* rrms), \
         (rows, n, x, weight, epsilon, y, rrms))                                                   \
  KERNEL(T, void, rms_norm_backward,                                                               \
         (std::size_t rows, std::size_t n, const T* x, const T* weight, const T* rrms, const T* g, \
          Target<T> dx, Target<T> dweight),                                                        \
         (rows, n, x, weight, rrms, g, dx, dweight))                                               \
  KERNEL(T, void, rotate, (const Rotation& rotation, const T* x, Target<T> y), (rotation, x, y))   \
  KERNEL(T, void, sgd_momentum_update,                                                             \
         (std::size_t n, const SgdCoefficients& c, const T* g, T* p, T* v), (n, c, g, p, v))       \
  KERNEL(T, void, sgd_update, (std::size_t n, const SgdCoefficients& c, const T* g, T* p),         \
         (n, c, g, p))                                                                             \
  KERNEL(T, void, softmax_row, (std::size_t n, const T* x, T* y), (n, x, y))                       \
  KERNEL(T, void, softmax_row_backward, (std::size_t n, const T* y, const T* dy, Target<T> dx),    \
         (n, y, dy, dx))                                                                           \
  KERNEL(T, void, sum_middle_axis,                                                                 \
         (std::size_t outer, std::size_t extent, std::size_t inner, const T* in, Target<T> out),   \
         (outer, extent, inner, in, out))                                                          \
  KERNEL(T, double, sum_of_squares, (std::size_t n, const T* in), (n, in))                         \
  KERNEL(T, void, top_log_softmax_row,                                                             \
         (std::size_t n, std::size_t k, const T* x, std::int32_t* ids, T* values),                 \
         (n, k, x, ids, values))                                                                   \
  KERNEL(T, void, where, (std::size_t n, Target<T> y, const T* condition, const T* a, const T* b), \
         (n, y, condition, a, b))

/// Kernels without an element type.
#define TAPESTRY_PLAIN_KERNELS(KERNEL)                                                         \
  KERNEL(double, alibi_slope, (std::size_t head, std::size_t heads), (head, heads))            \
  KERNEL(double, dropout_scale, (double rate), (rate))                                         \
  KERNEL(PhiloxWords, philox,                                                                  \
         (std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high),           \
         (key, counter_low, counter_high))                                                     \
  KERNEL(void, philox_words, (std::uint64_t key, std::uint64_t group, std::uint32_t * words),  \
         (key, group, words))                                                                  \
  KERNEL(void, philox_words_by_loops,                                                          \
         (std::uint64_t key, std::uint64_t group, std::uint32_t * words), (key, group, words)) \
  KERNEL(std::size_t, saved_weights, (const AttentionProblem& problem), (problem))

namespace tapestry::kernels {

#define TAPESTRY_MEMBER(T, Result, name, parameters, arguments) Result(*name) parameters;
/// The functions of one instruction set for one element type.
template <class T>
struct KernelsOf {
  TAPESTRY_KERNELS_OF(T, TAPESTRY_MEMBER)
};
#undef TAPESTRY_MEMBER

#define TAPESTRY_MEMBER(Result, name, parameters, arguments) Result(*name) parameters;
/// All functions of one instruction set.
struct KernelTable {
  KernelsOf<float> of_float;
  KernelsOf<double> of_double;
  TAPESTRY_PLAIN_KERNELS(TAPESTRY_MEMBER)
};
#undef TAPESTRY_MEMBER

/// A copy of the table of the set in use, so that a call costs one jump. Only use_kernels() changes
/// it.
[[gnu::visibility("hidden")]] extern KernelTable table_in_use;

}  // namespace tapestry::kernels
