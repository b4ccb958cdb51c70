#include "autograd/kernels/cross_entropy.h"

#include <algorithm>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels {
namespace {

template <class T>
CrossEntropySums row_sums(std::size_t n, const T* x, std::int32_t target, double alpha,
                          const LogSumExp<T>& log_sum) {
  const auto log_total = static_cast<double>(log_sum.log_total);
  const double hit = static_cast<double>(log_sum.largest - x[target]) + log_total;
  if (alpha == 0) return {.loss = hit, .negative_log_likelihood = hit};
  const Vec<T> largest(log_sum.largest);
  const double all = static_cast<double>(sum_of<T>(
                         n, [&](const Vec<T>& v) { return largest - v; }, x)) +
                     static_cast<double>(n) * log_total;
  return {.loss = (1 - alpha) * hit + alpha / static_cast<double>(n) * all,
          .negative_log_likelihood = hit};
}

}  // namespace

template <class T>
CrossEntropySums cross_entropy(const CrossEntropyProblem& p, const T* logits,
                               LogSumExp<T>* log_sums) {
  std::vector<CrossEntropySums, PoolAllocator<CrossEntropySums>> of_rows(p.rows);
  parallel_rows(p.rows, p.vocabulary, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      if (p.targets[row] < 0) continue;
      const T* x = logits + row * p.vocabulary;
      log_sums[row] = log_sum_exp(p.vocabulary, x);
      of_rows[row] = row_sums(p.vocabulary, x, p.targets[row], p.label_smoothing, log_sums[row]);
    }
  });
  CrossEntropySums total;
  for (const CrossEntropySums& row : of_rows) {
    total.loss += row.loss;
    total.negative_log_likelihood += row.negative_log_likelihood;
  }
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

#define TAPESTRY_INSTANTIATE(T)                                                                   \
  template CrossEntropySums cross_entropy(const CrossEntropyProblem&, const T*, LogSumExp<T>*);   \
  template void cross_entropy_backward(const CrossEntropyProblem&, const T*, const LogSumExp<T>*, \
                                       T, Target<T>);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
