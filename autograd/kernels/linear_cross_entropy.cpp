#include "autograd/kernels/linear_cross_entropy.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "autograd/kernels/gemm.h"
#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/reduce.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels {
namespace {

/// Logits that exist at a time.
constexpr std::size_t most_logits = std::size_t{1} << 20;
constexpr std::size_t fewest_rows = 96;

std::size_t rows_per_chunk(std::size_t vocabulary) {
  return std::max(fewest_rows, most_logits / vocabulary / 12 * 12);
}

using Rows = std::vector<std::size_t, PoolAllocator<std::size_t>>;

Rows rows_that_count(const CrossEntropyProblem& loss) {
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

/// Works through the rows that count, a chunk at a time.
template <class T>
class Chunks {
 public:
  Chunks(const LinearCrossEntropyProblem<T>& p, double factor,
         const LinearCrossEntropyGradients<T>& to)
      : p_(p),
        factor_(factor),
        to_(to),
        rows_(rows_that_count(p.loss)),
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
    if (to_.dx != nullptr) zero_rows_that_do_not_count();
    if (rows_.empty()) zero_parameters();
    for (std::size_t begin = 0; begin < rows_.size(); begin += chunk_) {
      run_chunk(begin, std::min(chunk_, rows_.size() - begin));
    }
    CrossEntropySums total;
    for (const CrossEntropySums& row : sums_) total += row;
    return total;
  }

 private:
  void zero_rows_that_do_not_count() {
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

#define TAPESTRY_INSTANTIATE(T)                                                               \
  template CrossEntropySums linear_cross_entropy(const LinearCrossEntropyProblem<T>&, double, \
                                                 const LinearCrossEntropyGradients<T>&);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
