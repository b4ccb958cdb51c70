// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/tape.h"
#include "train/checks/check.h"
#include "train/checks/one_step.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace {

// ---- Causality.

constexpr std::size_t causality_sentences = 3;
constexpr std::size_t causality_padding = 2;  ///< padding columns added to the batch

/// Random weights, with magnitudes in [0.5, 1.5], for the logits of position t; 0 for all other
/// positions.
Tensor weights_at(std::size_t t, const Shape& logits, DType dtype) {
  Tensor weights = Tensor::zeros(logits, dtype);
  const std::size_t length = logits[1], vocabulary = logits[2];
  dispatch(dtype, [&]<class T>() {
    const auto values = weights.mutable_values<T>();
    for (std::size_t row = 0; row < logits[0]; ++row) {
      for (std::size_t j = 0; j < vocabulary; ++j) {
        const double u = RandomStream(1).uniform(row * vocabulary + j);
        values[(row * length + t) * vocabulary + j] = static_cast<T>(u < 0.5 ? u - 1.5 : u + 0.5);
      }
    }
  });
  return weights;
}

std::vector<double> max_of_each_token(const Tensor& gradient) {
  const std::vector<double> values = to_doubles(gradient);
  const std::size_t width = gradient.shape()[2];
  std::vector<double> max_magnitudes(values.size() / width, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double& max = max_magnitudes[i / width];
    if (!(std::abs(values[i]) <= max)) max = std::abs(values[i]);  // keeps NaN
  }
  return max_magnitudes;
}

/// Checks the gradients of one row of inputs: the first `allowed` gradients must not all be 0, and
/// all later gradients must be exactly 0. Returns a description of the error, or an empty string.
std::string find_mistake(std::span<const double> influence, std::size_t allowed,
                         const char* input) {
  for (std::size_t i = allowed; i < influence.size(); ++i) {
    if (influence[i] != 0.0) {
      return fmt::format("depend on {} {} by {:.3g}, expected exactly 0", input, i + 1,
                         influence[i]);
    }
  }
  const auto up_to = influence.first(allowed);
  if (std::ranges::any_of(up_to, [](double g) { return g != 0.0; })) return "";
  return fmt::format("depend on no {} up to {}", input, allowed);
}

std::string find_mistake_at(std::size_t t, const Influence& influence, const Batch& batch,
                            bool causal) {
  for (std::size_t row = 0; row < batch.rows; ++row) {
    if (t >= batch.target_lengths[row]) continue;
    const auto mistake_in = [&](const std::vector<double>& all, std::size_t allowed,
                                const char* input) -> std::string {
      if (all.empty()) return "";
      const std::size_t length = all.size() / batch.rows;
      if (allowed == 0) allowed = length;  // images have no padding
      return find_mistake(std::span(all).subspan(row * length, length), allowed, input);
    };
    std::string found =
        mistake_in(influence.target, causal ? t + 1 : batch.target_lengths[row], "target input");
    if (found.empty()) {
      found = mistake_in(influence.source, batch.source_lengths[row], "source input");
    }
    if (!found.empty()) {
      return fmt::format("logits of example {} at token {} {}", row + 1, t + 1, found);
    }
  }
  return "";
}

// ---- Padding.

constexpr std::size_t max_added_columns = 3;
/// The offset of the vectors of padding, multiplied by 1, 2 or 3. A layer norm would remove an
/// offset that is equal for all values of a vector.
constexpr double padding_offset = 7.0;

/// The number of columns, at most `wanted`, that can be added to `length` tokens without exceeding
/// `max_length`.
std::size_t columns_to_add(std::size_t wanted, std::size_t length, std::size_t max_length) {
  return std::min(wanted, max_length - std::min(length, max_length));
}

/// `batch` with up to `columns` more columns of padding in source and target.
Batch with_more_padding(const Batch& batch, std::size_t columns, const CheckContext& context) {
  return add_padding(batch, columns_to_add(columns, batch.source_length, context.max_source_length),
                     columns_to_add(columns, batch.target_length, context.max_target_length));
}

/// Token vectors with changed values at padding; unchanged if the batch has no padding or has
/// images.
Tensor with_other_padding(const Tensor& vectors, const std::vector<std::size_t>& lengths) {
  if (!vectors.defined() || lengths.front() == 0) return vectors;
  Tensor other = vectors.to(DType::float64);
  const std::size_t columns = vectors.shape()[1], width = vectors.shape()[2];
  const auto values = other.mutable_values<double>();
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    const auto row_values = values.subspan(row * columns * width, columns * width);
    for (std::size_t i = lengths[row] * width; i < row_values.size(); ++i) {
      row_values[i] += padding_offset * static_cast<double>(1 + i % width % 3);
    }
  }
  return other;
}

Tensor logits_with_other_padding(const CheckedModel& model, const Batch& batch) {
  const NetworkInput input = network_input(batch, DType::float64);
  const TokenVectors vectors = model.embed(input, Mode::inference());
  const TokenVectors other{.source = with_other_padding(vectors.source, batch.source_lengths),
                           .target = with_other_padding(vectors.target, batch.target_lengths)};
  return model.logits(model.features(other, input, Mode::inference()));
}

bool has_padding(const Batch& batch) {
  const auto any_below = [](const std::vector<std::size_t>& lengths, std::size_t columns) {
    return std::ranges::any_of(lengths, [&](std::size_t length) { return length < columns; });
  };
  return any_below(batch.source_lengths, batch.source_length) ||
         any_below(batch.target_lengths, batch.target_length);
}

/// The row indices in reverse order. If their number is odd, the middle row keeps its place.
std::vector<std::size_t> reversed_order(std::size_t rows) {
  std::vector<std::size_t> order;
  for (std::size_t row = rows; row > 0; --row) order.push_back(row - 1);
  return order;
}

}  // namespace

Influence influence_on(std::size_t t, const CheckedModel& model, const Batch& batch) {
  const NetworkInput input = network_input(batch, model.dtype());
  const TokenVectors vectors = model.embed(input, Mode::inference());
  const auto leaf = [&](const Tensor& x) {
    return x.defined() ? x.detach().to(model.dtype()).set_requires_grad(true) : Tensor();
  };
  const TokenVectors leaves{.source = leaf(vectors.source), .target = leaf(vectors.target)};
  Tape tape;
  const Tensor logits = model.logits(model.features(leaves, input, Mode::inference()));
  tape.backward(logits, weights_at(t, logits.shape(), model.dtype()));
  const auto influence = [](const Tensor& x) -> std::vector<double> {
    if (!x.defined()) return {};
    const Tensor gradient = x.grad();
    return max_of_each_token(gradient.defined() ? gradient : Tensor::zeros(x.shape(), x.dtype()));
  };
  return {.source = influence(leaves.source), .target = influence(leaves.target)};
}

CheckResult causality(const CheckContext& context) {
  if (!context.batch.pixels.empty()) return skipped("images have neither padding nor an order");
  const Batch few =
      select_rows(context.batch, 0, std::min(causality_sentences, context.batch.rows));
  const Batch batch = with_more_padding(few, causality_padding, context);
  const CheckedModel model = context.copy(DType::float64);
  for (std::size_t t = 0; t < batch.target_length; ++t) {
    const std::string found =
        find_mistake_at(t, influence_on(t, model, batch), batch, context.causal);
    if (!found.empty()) return failed(found);
  }
  return passed(fmt::format("{} is exactly 0 ({} examples, {} positions)",
                            context.causal
                                ? "d(logits at t)/d(target input after t), and for padding,"
                                : "d(logits)/d(padding)",
                            batch.rows, batch.target_length));
}

CheckResult padding(const CheckContext& context) {
  const Batch& batch = context.batch;
  const Batch wide = with_more_padding(batch, max_added_columns, context);
  if (!has_padding(wide)) {
    return skipped("no example is padded, and model.max_length leaves no room for padding");
  }
  const std::size_t source = wide.source_length - batch.source_length;
  const std::size_t target = wide.target_length - batch.target_length;
  const CheckedModel model = context.copy(DType::float64);
  const Tensor logits = compute_logits(model, batch), wide_logits = compute_logits(model, wide);

  const auto by_values = max_difference(wide, wide_logits, logits_with_other_padding(model, wide));
  if (by_values.max != 0.0) {
    return failed(fmt::format("{} with different values in the padding", by_values.to_string()));
  }
  const auto by_columns = max_difference(batch, logits, wide_logits);
  if (by_columns.max > allowed_rounding() * by_columns.scale) {
    return failed(fmt::format("{} with {} more columns of source padding and {} of target padding",
                              by_columns.to_string(), source, target));
  }
  const double before = compute_loss(model, batch, {}), after = compute_loss(model, wide, {});
  if (!(std::abs(after - before) <= allowed_rounding() * std::abs(before))) {
    return failed(
        fmt::format("loss went from {:.15g} to {:.15g} with more padding", before, after));
  }
  return passed(
      fmt::format("values in the padding do not change the logits; {} + {} more columns change "
                  "the logits by {} (tolerance {})",
                  source, target, by_columns.max, allowed_rounding() * by_columns.scale));
}

CheckResult permutation(const CheckContext& context) {
  const Batch& batch = context.batch;
  if (batch.rows < 2) return skipped("the training set has only one example");
  const std::vector<std::size_t> order = reversed_order(batch.rows);
  const CheckedModel model = context.copy(DType::float64);
  const auto difference = max_difference(batch, compute_logits(model, batch),
                                         compute_logits(model, select_rows(batch, order)), order);
  const double tolerance = allowed_rounding() * difference.scale;
  if (difference.max > tolerance) {
    return failed(fmt::format("{} with the examples in reverse order", difference.to_string()));
  }
  return passed(fmt::format("{} examples in reverse order: logits differ by {} (tolerance {})",
                            batch.rows, difference.max, tolerance));
}

}  // namespace tapestry
