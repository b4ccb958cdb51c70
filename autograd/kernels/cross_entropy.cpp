#include "autograd/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels {
namespace {

/// From a row's log-sum-exp, the target's distance to the largest logit, and the sum of such
/// distances over the row.
template <class T>
CrossEntropySums sums_of(const CrossEntropyProblem& p, const LogSumExp<T>& log_sum, T to_target,
                         T to_all) {
  const auto log_total = static_cast<double>(log_sum.log_total);
  const double hit = static_cast<double>(to_target) + log_total;
  const double alpha = p.label_smoothing;
  if (alpha == 0) return {.loss = hit, .negative_log_likelihood = hit};
  const auto n = static_cast<double>(p.vocabulary);
  const double all = static_cast<double>(to_all) + n * log_total;
  return {.loss = (1 - alpha) * hit + alpha / n * all, .negative_log_likelihood = hit};
}

/// sum_j (largest - x_j); 0 where nothing is smoothed, since nobody asks then.
template <class T>
T distance_to_all(const CrossEntropyProblem& p, T largest, const T* x) {
  if (p.label_smoothing == 0) return T(0);
  return sum_of<T>(
      p.vocabulary, [&](const Vec<T>& v) { return Vec<T>(largest) - v; }, x);
}

template <class T>
CrossEntropySums row_sums(const CrossEntropyProblem& p, std::int32_t target, const T* x,
                          const LogSumExp<T>& log_sum) {
  return sums_of(p, log_sum, log_sum.largest - x[target], distance_to_all(p, log_sum.largest, x));
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
  log_sum.log_total = std::log(total);
  const Vec<T> scale(static_cast<T>(factor) / total);
  const Vec<T> spread(static_cast<T>(factor * p.label_smoothing / static_cast<double>(n)));
  map(
      n, Target<T>{logits}, [&](const Vec<T>& e) { return rounded(e * scale) - spread; }, logits);
  logits[target] -= static_cast<T>(factor * (1 - p.label_smoothing));
  return sums_of(p, log_sum, log_sum.largest - to_target_from_zero, to_all);
}

template <class T>
CrossEntropySums cross_entropy(const CrossEntropyProblem& p, const T* logits,
                               LogSumExp<T>* log_sums) {
  std::vector<CrossEntropySums, PoolAllocator<CrossEntropySums>> of_rows(p.rows);
  parallel_rows(p.rows, p.vocabulary, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      if (p.targets[row] < 0) continue;
      const T* x = logits + row * p.vocabulary;
      log_sums[row] = log_sum_exp(p.vocabulary, x);
      of_rows[row] = row_sums(p, p.targets[row], x, log_sums[row]);
    }
  });
  CrossEntropySums total;
  for (const CrossEntropySums& row : of_rows) total += row;
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
            return (xsimd::exp((v - largest) - log_total) - spread) * Vec<T>(g);
          },
          logits + row * p.vocabulary);
      out.data[p.targets[row]] -= hit;
    }
  });
}

#define TAPESTRY_INSTANTIATE(T)                                                                    \
  template CrossEntropySums cross_entropy_row(const CrossEntropyProblem&, std::int32_t, const T*); \
  template CrossEntropySums cross_entropy_row(const CrossEntropyProblem&, std::int32_t, double,    \
                                              T*);                                                 \
  template CrossEntropySums cross_entropy(const CrossEntropyProblem&, const T*, LogSumExp<T>*);    \
  template void cross_entropy_backward(const CrossEntropyProblem&, const T*, const LogSumExp<T>*,  \
                                       T, Target<T>);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
