// SPDX-License-Identifier: BSD-3-Clause
#include "train/checks/one_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "autograd/kernels/matmul.h"
#include "autograd/tape.h"
#include "data/text/vocabulary.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace {

/// Lower bound of the denominator, relative to the norm of the largest gradient.
constexpr double min_denominator = 1e-3;

Tensor features(const CheckedModel& model, const Batch& batch, const Mode& mode) {
  const NetworkInput input = network_input(batch, model.dtype());
  return model.features(model.embed(input, mode), input, mode);
}

Tensor training_loss(const CheckedModel& model, const Tensor& features, const Batch& batch,
                     const StepOptions& options) {
  return model.loss(features, label_ids(batch),
                    {.ignored_id = no_label,
                     .label_smoothing = options.label_smoothing,
                     .normalizer = options.normalizer});
}

/// Computes the logits without recording them on the tape.
std::vector<double> unrecorded_logits(const CheckedModel& model, const Tensor& features) {
  const NoGrad no_grad;
  return to_doubles(model.logits(features));
}

std::optional<std::string> first_difference(const std::string& what, const std::vector<double>& a,
                                            const std::vector<double>& b) {
  if (a.size() != b.size()) {
    return fmt::format("{}: {} values, then {}", what, a.size(), b.size());
  }
  const auto [x, y] = std::ranges::mismatch(a, b);
  if (x == a.end()) return std::nullopt;
  return fmt::format("{}, value {}: {:.17g}, then {:.17g}", what, x - a.begin() + 1, *x, *y);
}

double norm(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double x : values) sum += x * x;
  return std::sqrt(sum);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::isnan(sum) ? std::numeric_limits<double>::infinity() : std::sqrt(sum);
}

}  // namespace

std::vector<double> to_doubles(const Tensor& x) {
  return dispatch(x.dtype(), [&]<class T>() {
    const auto values = x.values<T>();
    return std::vector<double>(values.begin(), values.end());
  });
}

Tensor compute_logits(const CheckedModel& model, const Batch& batch) {
  return model.logits(features(model, batch, Mode::inference()));
}

double compute_loss(const CheckedModel& model, const Batch& batch, const StepOptions& options) {
  return training_loss(model, features(model, batch, options.mode), batch, options).item();
}

StepValues run_step(CheckedModel& model, const Batch& batch, const StepOptions& options) {
  Tape tape;
  const Tensor x = features(model, batch, options.mode);
  const Tensor loss = training_loss(model, x, batch, options);
  StepValues step{.loss = loss.item(), .logits = unrecorded_logits(model, x), .gradients = {}};
  tape.backward(loss);
  for (const NamedTensor& parameter : model.parameters) {
    const Tensor gradient = parameter.tensor.grad();
    step.gradients.push_back(gradient.defined() ? to_doubles(gradient) : std::vector<double>());
  }
  return step;
}

StepOptions training_options(const CheckContext& context) {
  return {.mode = Mode::training(RandomStream(context.seed).named("dropout").at(1).at(0))
                      .with_deferred_averages(),
          .label_smoothing = context.label_smoothing};
}

std::optional<std::string> first_difference(const CheckedModel& model, const StepValues& a,
                                            const StepValues& b) {
  if (auto found = first_difference("loss", {a.loss}, {b.loss})) return found;
  if (auto found = first_difference("logits", a.logits, b.logits)) return found;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const std::string what = "gradient of " + model.parameters[i].name;
    if (auto found = first_difference(what, a.gradients[i], b.gradients[i])) return found;
  }
  return std::nullopt;
}

GradientDistance max_distance(const CheckedModel& model, const StepValues& a, const StepValues& b) {
  double max_norm = 0.0;
  for (const auto& gradient : b.gradients) max_norm = std::max(max_norm, norm(gradient));
  GradientDistance worst;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const double apart = distance(a.gradients[i], b.gradients[i]);
    if (apart == 0.0) continue;
    const double relative = apart / std::max(norm(b.gradients[i]), min_denominator * max_norm);
    if (!(relative <= worst.relative)) worst = {relative, model.parameters[i].name};
  }
  return worst;
}

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

LogitDifference max_difference(const Batch& batch, const Tensor& before, const Tensor& after,
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
      worst.scale = std::max(worst.scale, std::abs(a));
      if (distance(a, b) <= worst.max) continue;
      worst.max = distance(a, b);
      worst.sentence = order[row];
      worst.token = i / vocabulary;
      worst.before = a;
      worst.after = b;
    }
  }
  return worst;
}

LogitDifference max_difference(const Batch& batch, const Tensor& before, const Tensor& after) {
  std::vector<std::size_t> same(batch.rows);
  std::iota(same.begin(), same.end(), std::size_t{0});
  return max_difference(batch, before, after, same);
}

double allowed_rounding() { return matmul_in_use() == Matmul::openblas ? 1e-12 : 0.0; }

}  // namespace tapestry
