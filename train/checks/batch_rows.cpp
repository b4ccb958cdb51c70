#include "train/checks/batch_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "autograd/kernels/matmul.h"
#include "data/text/vocabulary.h"
#include "train/checks/one_step.h"

namespace tapestry {
namespace {

/// Appends the first `tokens` values of row `from` of a matrix, padded to `new_columns`.
void append_row(std::vector<std::int32_t>& to, const std::vector<std::int32_t>& matrix,
                std::size_t columns, std::size_t from, std::size_t tokens, std::size_t new_columns,
                std::int32_t padding = pad_id) {
  const auto begin = matrix.begin() + static_cast<std::ptrdiff_t>(from * columns);
  to.insert(to.end(), begin, begin + static_cast<std::ptrdiff_t>(tokens));
  to.insert(to.end(), new_columns - tokens, padding);
}

Batch make_batch_of_rows(const Batch& batch, std::span<const std::size_t> rows,
                         std::size_t source_length, std::size_t target_length) {
  Batch result;
  result.rows = rows.size();
  result.source_length = source_length;
  result.target_length = target_length;
  for (const std::size_t row : rows) {
    const std::size_t source = batch.source_lengths[row];
    const std::size_t target = batch.target_lengths[row];
    append_row(result.source, batch.source, batch.source_length, row, source, source_length);
    append_row(result.input, batch.input, batch.target_length, row, target, target_length);
    append_row(result.labels, batch.labels, batch.target_length, row, target, target_length,
               no_label);
    result.source_lengths.push_back(source);
    result.target_lengths.push_back(target);
    result.target_tokens += target;
    result.examples.push_back(batch.examples[row]);
    const std::size_t pixels = batch.pixels.size() / batch.rows;
    const auto image = batch.pixels.begin() + static_cast<std::ptrdiff_t>(row * pixels);
    result.pixels.insert(result.pixels.end(), image, image + static_cast<std::ptrdiff_t>(pixels));
  }
  return result;
}

std::vector<std::size_t> range(std::size_t begin, std::size_t end) {
  std::vector<std::size_t> rows(end - begin);
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

double distance(double a, double b) {
  const double apart = std::abs(a - b);
  return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
}

}  // namespace

Batch select_rows(const Batch& batch, std::span<const std::size_t> rows) {
  std::size_t source_length = 0, target_length = 0;
  for (const std::size_t row : rows) {
    source_length = std::max(source_length, batch.source_lengths[row]);
    target_length = std::max(target_length, batch.target_lengths[row]);
  }
  return make_batch_of_rows(batch, rows, source_length, target_length);
}

Batch select_rows(const Batch& batch, std::size_t begin, std::size_t end) {
  return select_rows(batch, range(begin, end));
}

Batch add_padding(const Batch& batch, std::size_t source_columns, std::size_t target_columns) {
  return make_batch_of_rows(batch, range(0, batch.rows), batch.source_length + source_columns,
                            batch.target_length + target_columns);
}

std::string LogitDifference::to_string() const {
  std::string from = fmt::format("{:.12g}", before), to = fmt::format("{:.12g}", after);
  if (from == to) from = fmt::format("{}", before), to = fmt::format("{}", after);
  return fmt::format("logits of example {} at token {} went from {} to {}", sentence + 1, token + 1,
                     from, to);
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

double allowed_rounding() { return matmul_in_use() == Matmul::openblas ? 1e-12 : 0.0; }

}  // namespace tapestry
