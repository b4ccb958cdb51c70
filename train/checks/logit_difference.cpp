#include "train/checks/logit_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "autograd/kernels/gemm.h"
#include "train/checks/one_step.h"

namespace tapestry {
namespace {

double distance(double a, double b) {
  const double apart = std::abs(a - b);
  return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
}

}  // namespace

std::string LogitDifference::to_string() const {
  return fmt::format("logits of sentence {} at token {} went from {:.12g} to {:.12g}", sentence + 1,
                     token + 1, before, after);
}

LogitDifference largest_difference(const Batch& batch, const Tensor& before, const Tensor& after,
                                   std::span<const std::size_t> order) {
  const std::vector<double> old_values = to_doubles(before);
  const std::vector<double> new_values = to_doubles(after);
  const std::size_t vocabulary = before.shape()[2];
  const std::size_t old_length = before.shape()[1], new_length = after.shape()[1];
  LogitDifference worst;
  for (std::size_t row = 0; row < order.size(); ++row) {
    const std::size_t old_begin = order[row] * old_length * vocabulary;
    const std::size_t new_begin = row * new_length * vocabulary;
    for (std::size_t i = 0; i < batch.target_lengths[order[row]] * vocabulary; ++i) {
      const double a = old_values[old_begin + i], b = new_values[new_begin + i];
      worst.largest = std::max(worst.largest, std::abs(a));
      if (distance(a, b) <= worst.most) continue;
      worst.most = distance(a, b);
      worst.sentence = order[row];
      worst.token = i / vocabulary;
      worst.before = a;
      worst.after = b;
    }
  }
  return worst;
}

LogitDifference largest_difference(const Batch& batch, const Tensor& before, const Tensor& after) {
  std::vector<std::size_t> same(batch.rows);
  std::iota(same.begin(), same.end(), std::size_t{0});
  return largest_difference(batch, before, after, same);
}

double allowed_rounding() { return kernels::gemm_uses_blas() ? 1e-12 : 0.0; }

}  // namespace tapestry
