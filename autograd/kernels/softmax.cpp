// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/softmax.h"

#include <algorithm>
#include <limits>
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

template <class T>
inline constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

/// Inserts x into the first `count` - 1 of `count` values in descending order, after equal values;
/// overwrites the last value.
template <class T>
void insert(T x, std::int32_t id, std::size_t count, std::int32_t* ids, T* values) {
  std::size_t i = count - 1;
  for (; i > 0 && values[i - 1] < x; --i) {
    values[i] = values[i - 1];
    ids[i] = ids[i - 1];
  }
  values[i] = x;
  ids[i] = id;
}

}  // namespace

template <class T>
T softmax_shift(std::size_t n, const T* x) {
  const T largest = max_value(n, x);
  return largest == minus_infinity<T> ? T(0) : largest;
}

template <class T>
T exp_row(std::size_t n, T shift, T* x) {
  const Vec<T> s(shift);
  return map_and_sum(n, x, x, [&](const Vec<T>& v) { return exp_nonpositive<T>(v - s); });
}

template <class T>
void softmax_row(std::size_t n, const T* x, T* y) {
  const Vec<T> shift(softmax_shift(n, x));
  const T total =
      map_and_sum(n, x, y, [&](const Vec<T>& v) { return exp_nonpositive<T>(v - shift); });
  if (total == T(0)) return;  // y is all zeros
  const Vec<T> inverse(T(1) / total);
  map(
      n, Target<T>{y}, [&](const Vec<T>& v) { return v * inverse; }, y);
}

template <class T>
void softmax_row_backward(std::size_t n, const T* y, const T* dy, Target<T> dx) {
  const Vec<T> mean(sum_map<T>(
      n, [](const Vec<T>& a, const Vec<T>& b) { return a * b; }, y, dy));
  map(
      n, dx, [&](const Vec<T>& p, const Vec<T>& g) { return p * (g - mean); }, y, dy);
}

template <class T>
LogSumExp<T> log_sum_exp(std::size_t n, const T* x) {
  const T largest = softmax_shift(n, x);
  const Vec<T> shift(largest);
  return {.largest = largest,
          .log_total = static_cast<T>(portable::log(sum_map<T>(
              n, [&](const Vec<T>& v) { return exp_nonpositive<T>(v - shift); }, x)))};
}

template <class T>
void log_softmax_row(std::size_t n, const T* x, T* y) {
  const LogSumExp<T> row = log_sum_exp(n, x);
  const Vec<T> largest(row.largest);
  const Vec<T> log_total(row.log_total == minus_infinity<T> ? T(0) : row.log_total);
  map(
      n, Target<T>{y}, [&](const Vec<T>& v) { return (v - largest) - log_total; }, x);
}

template <class T>
void log_softmax_row_backward(std::size_t n, const T* y, const T* dy, Target<T> dx) {
  if (std::all_of(y, y + n, [](T log_p) { return log_p == minus_infinity<T>; })) {
    if (!dx.add) std::fill_n(dx.data, n, T(0));
    return;
  }
  const Vec<T> total(sum_map<T>(
      n, [](const Vec<T>& g) { return g; }, dy));
  map(
      n, dx, [&](const Vec<T>& l, const Vec<T>& g) { return g - exp_nonpositive<T>(l) * total; }, y,
      dy);
}

template <class T>
void top_log_softmax_row(std::size_t n, std::size_t k, const T* x, std::int32_t* ids, T* values) {
  constexpr std::size_t block = 64;  // elements that are skipped together
  for (std::size_t j = 0; j < k; ++j)
    insert(x[j], static_cast<std::int32_t>(j), j + 1, ids, values);
  for (std::size_t begin = k; begin < n; begin += block) {
    const std::size_t end = std::min(n, begin + block);
    if (!(max_value(end - begin, x + begin) > values[k - 1])) continue;
    for (std::size_t j = begin; j < end; ++j) {
      if (x[j] > values[k - 1]) insert(x[j], static_cast<std::int32_t>(j), k, ids, values);
    }
  }
  const LogSumExp<T> row = log_sum_exp(n, x);
  const T log_total = row.log_total == minus_infinity<T> ? T(0) : row.log_total;
  for (std::size_t i = 0; i < k; ++i) values[i] = (values[i] - row.largest) - log_total;
}

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

/// sum_j (largest - x_j), for label smoothing; 0 without it.
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

}  // namespace

template <class T>
CrossEntropySums cross_entropy_row(const CrossEntropyProblem& p, std::int32_t target,
                                   const T* logits) {
  return row_sums(p, target, logits, log_sum_exp(p.vocabulary, logits));
}

template <class T>
CrossEntropySums cross_entropy_row(const CrossEntropyProblem& p, std::int32_t target, double factor,
                                   T* logits) {
  const std::size_t n = p.vocabulary;
  const T to_target_from_zero = logits[target];
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
  return smoothed_sums(p, log_sum, log_sum.largest - to_target_from_zero, to_all);
}

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

/// Maximum number of logits that are stored at a time.
constexpr std::size_t max_logits = std::size_t{1} << 20;
constexpr std::size_t min_rows = 96;

std::size_t rows_per_chunk(std::size_t vocabulary) {
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

/// Processes the rows that are not ignored, a chunk at a time.
template <class T>
class Chunks {
 public:
  Chunks(const LinearCrossEntropyProblem<T>& p, double factor,
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
    if (rows_.empty()) zero_parameters();
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

  void zero_parameters() {
    const std::size_t n = p_.loss.vocabulary;
    if (to_.dweight != nullptr) std::fill_n(to_.dweight, n * p_.d, T(0));
    if (to_.dbias != nullptr) std::fill_n(to_.dbias, n, T(0));
  }

  void run_chunk(std::size_t begin, std::size_t m) {
    const std::size_t d = p_.d, n = p_.loss.vocabulary;
    for (std::size_t i = 0; i < m; ++i) copy_row(d, p_.x + rows_[begin + i] * d, x_ + i * d);
    gemm_packed<T>(m, T(1), {x_, d}, to_logits_, {logits_}, n, p_.bias);
    parallel_rows(m, n, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) sums_[begin + i] = finish_row(begin, i);
    });
    const bool more = begin > 0;
    if (to_.dx != nullptr) {
      gemm_packed<T>(m, T(1), {logits_, n}, *to_dx_, {dx_}, d);
      for (std::size_t i = 0; i < m; ++i) copy_row(d, dx_ + i * d, to_.dx + rows_[begin + i] * d);
    }
    if (to_.dweight != nullptr) {
      gemm<T>(n, d, m, T(1), {logits_, n, true}, {x_, d}, {to_.dweight, more}, d);
    }
    if (to_.dbias != nullptr) sum_middle_axis(1, m, n, logits_, Target<T>{to_.dbias, more});
  }

  /// Loss of row i of the chunk; its logits become their gradient if that is wanted.
  CrossEntropySums finish_row(std::size_t begin, std::size_t i) const {
    const std::int32_t target = p_.loss.targets[rows_[begin + i]];
    T* const row = logits_ + i * p_.loss.vocabulary;
    return to_.any() ? cross_entropy_row(p_.loss, target, factor_, row)
                     : cross_entropy_row(p_.loss, target, row);
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
  return Chunks<T>(problem, factor, gradients).run();
}

#define TAPESTRY_INSTANTIATE(T)                                                                    \
  template void softmax_row(std::size_t, const T*, T*);                                            \
  template T softmax_shift(std::size_t, const T*);                                                 \
  template T exp_row(std::size_t, T, T*);                                                          \
  template void softmax_row_backward(std::size_t, const T*, const T*, Target<T>);                  \
  template LogSumExp<T> log_sum_exp(std::size_t, const T*);                                        \
  template void log_softmax_row(std::size_t, const T*, T*);                                        \
  template void log_softmax_row_backward(std::size_t, const T*, const T*, Target<T>);              \
  template void top_log_softmax_row(std::size_t, std::size_t, const T*, std::int32_t*, T*);        \
  template CrossEntropySums cross_entropy_row(const CrossEntropyProblem&, std::int32_t, const T*); \
  template CrossEntropySums cross_entropy_row(const CrossEntropyProblem&, std::int32_t, double,    \
                                              T*);                                                 \
  template CrossEntropySums cross_entropy(const CrossEntropyProblem&, const T*, LogSumExp<T>*);    \
  template void cross_entropy_backward(const CrossEntropyProblem&, const T*, const LogSumExp<T>*,  \
                                       T, Target<T>);                                              \
  template CrossEntropySums linear_cross_entropy(const LinearCrossEntropyProblem<T>&, double,      \
                                                 const LinearCrossEntropyGradients<T>&);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
