// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/cross_entropy.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "autograd/kernels/exp.h"
#include "autograd/kernels/gemm.h"
#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/portable_math.h"
#include "autograd/kernels/reduce.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

/// The sums of one row from its log-sum-exp, the distance of the target's logit to the largest
/// logit and the sum of all such distances.
template <class T>
CrossEntropySums smoothed_sums(const CrossEntropyProblem& p, const LogSumExp<T>& log_sum,
                               T to_target, T to_all) {
  const auto log_total = static_cast<double>(log_sum.log_total);
  const double hit = static_cast<double>(to_target) + log_total;
  const double alpha = p.label_smoothing;
  if (alpha == 0) return {.loss = hit, .negative_log_likelihood = hit};
  const auto n = static_cast<double>(p.vocabulary);
  const double misses = static_cast<double>(to_all) + n * log_total;
  return {.loss = (1 - alpha) * hit + alpha / n * misses, .negative_log_likelihood = hit};
}

/// sum_j (largest - x_j), for label smoothing; 0 without label smoothing.
template <class T>
T distance_to_all(const CrossEntropyProblem& p, T largest, const T* x) {
  if (p.label_smoothing == 0) return T(0);
  return sum_map<T>(
      p.vocabulary, [&](const Vec<T>& v) { return Vec<T>(largest) - v; }, x);
}

template <class T>
CrossEntropySums row_sums(const CrossEntropyProblem& p, std::int32_t target, const T* x,
                          const LogSumExp<T>& log_sum) {
  return smoothed_sums(p, log_sum, log_sum.largest - x[target],
                       distance_to_all(p, log_sum.largest, x));
}

/// The sums of one row; replaces its logits with factor * dL/dlogits.
template <class T>
CrossEntropySums row_sums_and_gradient(const CrossEntropyProblem& p, std::int32_t target,
                                       double factor, T* logits) {
  const std::size_t n = p.vocabulary;
  const T target_logit = logits[target];
  LogSumExp<T> log_sum;
  log_sum.largest = softmax_shift(n, logits);
  const T to_all = distance_to_all(p, log_sum.largest, logits);
  const T total = exp_row(n, log_sum.largest, logits);
  log_sum.log_total = static_cast<T>(portable::log(total));
  const Vec<T> scale(static_cast<T>(factor) / total);
  const Vec<T> spread(static_cast<T>(factor * p.label_smoothing / static_cast<double>(n)));
  map(
      n, Target<T>{logits}, [&](const Vec<T>& e) { return rounded(e * scale) - spread; }, logits);
  logits[target] -= static_cast<T>(factor * (1 - p.label_smoothing));
  return smoothed_sums(p, log_sum, log_sum.largest - target_logit, to_all);
}

}  // namespace

template <class T>
CrossEntropySums cross_entropy(const CrossEntropyProblem& p, const T* logits,
                               LogSumExp<T>* log_sums) {
  std::vector<CrossEntropySums, PoolAllocator<CrossEntropySums>> sums(p.rows);
  parallel_rows(p.rows, p.vocabulary, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      if (p.targets[row] < 0) continue;
      const T* x = logits + row * p.vocabulary;
      log_sums[row] = log_sum_exp(p.vocabulary, x);
      sums[row] = row_sums(p, p.targets[row], x, log_sums[row]);
    }
  });
  CrossEntropySums total;
  for (const CrossEntropySums& row : sums) total += row;
  return total;
}

template <class T>
void cross_entropy_backward(const CrossEntropyProblem& p, const T* logits,
                            const LogSumExp<T>* log_sums, T g, Target<T> dlogits) {
  const auto n = static_cast<double>(p.vocabulary);
  const Vec<T> spread(static_cast<T>(p.label_smoothing / n));
  const T hit = static_cast<T>(1 - p.label_smoothing) * g;
  parallel_rows(p.rows, p.vocabulary, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const Target<T> out = dlogits + row * p.vocabulary;
      if (p.targets[row] < 0) {
        if (!out.add) std::fill_n(out.data, p.vocabulary, T(0));
        continue;
      }
      const Vec<T> largest(log_sums[row].largest);
      const Vec<T> log_total(log_sums[row].log_total);
      map(
          p.vocabulary, out,
          [&](const Vec<T>& v) {
            return (exp_nonpositive<T>((v - largest) - log_total) - spread) * Vec<T>(g);
          },
          logits + row * p.vocabulary);
      out.data[p.targets[row]] -= hit;
    }
  });
}

namespace {

/// Number of rows in a chunk: at most about a million logits, but at least 96 rows; a multiple of
/// 12.
std::size_t rows_per_chunk(std::size_t vocabulary) {
  constexpr std::size_t max_logits = std::size_t{1} << 20;
  constexpr std::size_t min_rows = 96;
  return std::max(min_rows, max_logits / vocabulary / 12 * 12);
}

using Rows = std::vector<std::size_t, PoolAllocator<std::size_t>>;

Rows kept_rows(const CrossEntropyProblem& loss) {
  Rows rows;
  rows.reserve(loss.rows);
  for (std::size_t row = 0; row < loss.rows; ++row) {
    if (loss.targets[row] >= 0) rows.push_back(row);
  }
  return rows;
}

template <class T>
void copy_row(std::size_t n, const T* from, T* to) {
  map(
      n, Target<T>{to}, [](const Vec<T>& v) { return v; }, from);
}

/// Computes linear_cross_entropy() from the rows that are not ignored, one chunk at a time.
template <class T>
class LinearCrossEntropy {
 public:
  LinearCrossEntropy(const LinearCrossEntropyProblem<T>& p, double factor,
                     const LinearCrossEntropyGradients<T>& to)
      : p_(p),
        factor_(factor),
        to_(to),
        rows_(kept_rows(p.loss)),
        chunk_(std::min(rows_per_chunk(p.loss.vocabulary), rows_.size())),
        memory_(chunk_ * (p.loss.vocabulary + 2 * p.d) * sizeof(T)),
        logits_(reinterpret_cast<T*>(memory_.data())),
        x_(logits_ + chunk_ * p.loss.vocabulary),
        dx_(x_ + chunk_ * p.d),
        sums_(rows_.size()),
        to_logits_(p.d, p.loss.vocabulary, {p.weight, p.d, true}) {
    if (to.dx != nullptr) to_dx_.emplace(p.loss.vocabulary, p.d, Operand<T>{p.weight, p.d});
  }

  CrossEntropySums run() {
    if (to_.dx != nullptr) zero_ignored_rows();
    if (rows_.empty()) zero_parameter_gradients();
    for (std::size_t begin = 0; begin < rows_.size(); begin += chunk_) {
      run_chunk(begin, std::min(chunk_, rows_.size() - begin));
    }
    CrossEntropySums total;
    for (const CrossEntropySums& row : sums_) total += row;
    return total;
  }

 private:
  void zero_ignored_rows() {
    for (std::size_t row = 0; row < p_.loss.rows; ++row) {
      if (p_.loss.targets[row] < 0) std::fill_n(to_.dx + row * p_.d, p_.d, T(0));
    }
  }

  void zero_parameter_gradients() {
    const std::size_t n = p_.loss.vocabulary;
    if (to_.dweight != nullptr) std::fill_n(to_.dweight, n * p_.d, T(0));
    if (to_.dbias != nullptr) std::fill_n(to_.dbias, n, T(0));
  }

  /// Processes `m` of the rows that are not ignored, starting with row number `begin` of these.
  void run_chunk(std::size_t begin, std::size_t m) {
    compute_logits(begin, m);
    parallel_rows(m, p_.loss.vocabulary, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) sums_[begin + i] = finish_row(begin, i);
    });
    if (to_.dx != nullptr) write_dx(begin, m);
    add_parameter_gradients(begin, m);
  }

  void compute_logits(std::size_t begin, std::size_t m) {
    const std::size_t d = p_.d;
    for (std::size_t i = 0; i < m; ++i) copy_row(d, p_.x + rows_[begin + i] * d, x_ + i * d);
    gemm_packed<T>(m, T(1), {x_, d}, to_logits_, {logits_}, p_.loss.vocabulary, p_.bias);
  }

  /// The loss of row i of the chunk. Replaces the logits of the row with their gradient if it is
  /// needed.
  CrossEntropySums finish_row(std::size_t begin, std::size_t i) const {
    const std::int32_t target = p_.loss.targets[rows_[begin + i]];
    const std::size_t n = p_.loss.vocabulary;
    T* const row = logits_ + i * n;
    return to_.any() ? row_sums_and_gradient(p_.loss, target, factor_, row)
                     : row_sums<T>(p_.loss, target, row, log_sum_exp(n, row));
  }

  void write_dx(std::size_t begin, std::size_t m) {
    const std::size_t d = p_.d;
    gemm_packed<T>(m, T(1), {logits_, p_.loss.vocabulary}, *to_dx_, {dx_}, d);
    for (std::size_t i = 0; i < m; ++i) copy_row(d, dx_ + i * d, to_.dx + rows_[begin + i] * d);
  }

  /// The first chunk writes the gradients of weight and bias; later chunks add to them.
  void add_parameter_gradients(std::size_t begin, std::size_t m) {
    const std::size_t d = p_.d, n = p_.loss.vocabulary;
    const bool add = begin > 0;
    if (to_.dweight != nullptr) {
      gemm<T>(n, d, m, T(1), {logits_, n, true}, {x_, d}, {to_.dweight, add}, d);
    }
    if (to_.dbias != nullptr) sum_middle_axis(1, m, n, logits_, Target<T>{to_.dbias, add});
  }

  const LinearCrossEntropyProblem<T>& p_;
  double factor_;
  const LinearCrossEntropyGradients<T>& to_;
  Rows rows_;
  std::size_t chunk_;
  Memory memory_;
  T *logits_, *x_, *dx_;
  std::vector<CrossEntropySums, PoolAllocator<CrossEntropySums>> sums_;
  PackedOperand<T> to_logits_;
  std::optional<PackedOperand<T>> to_dx_;
};

}  // namespace

template <class T>
CrossEntropySums linear_cross_entropy(const LinearCrossEntropyProblem<T>& problem, double factor,
                                      const LinearCrossEntropyGradients<T>& gradients) {
  return LinearCrossEntropy<T>(problem, factor, gradients).run();
}

#define TAPESTRY_INSTANTIATE(T)                                                                   \
  template CrossEntropySums cross_entropy(const CrossEntropyProblem&, const T*, LogSumExp<T>*);   \
  template void cross_entropy_backward(const CrossEntropyProblem&, const T*, const LogSumExp<T>*, \
                                       T, Target<T>);                                             \
  template CrossEntropySums linear_cross_entropy(const LinearCrossEntropyProblem<T>&, double,     \
                                                 const LinearCrossEntropyGradients<T>&);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
