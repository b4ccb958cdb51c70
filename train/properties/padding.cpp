#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "train/batch_tensors.h"
#include "train/properties/batch_rows.h"
#include "train/properties/logit_difference.h"
#include "train/properties/properties.h"
#include "train/properties/step.h"

namespace tapestry {
namespace {

constexpr std::size_t most_columns = 3;
constexpr double offset = 7.0;  ///< of what stands in the padding

/// The vectors with other values behind the end of each sentence; as they are if they are none, or
/// those of images.
Tensor with_other_padding(const Tensor& vectors, const std::vector<std::size_t>& lengths) {
  if (!vectors || lengths.front() == 0) return vectors;
  Tensor other = vectors.copied(DType::float64);
  const std::size_t columns = vectors.shape()[1], width = vectors.shape()[2];
  const auto values = other.mutable_values<double>();
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    const auto of_row = values.subspan(row * columns * width, columns * width);
    for (double& x : of_row.subspan(lengths[row] * width)) x += offset;
  }
  return other;
}

Tensor logits_with_other_padding(const ExaminedModel& model, const Batch& batch) {
  const NetworkInput input = network_input(batch, DType::float64);
  const TokenVectors read = model.embed(input, {});
  return model.logits({.source = with_other_padding(read.source, batch.source_lengths),
                       .target = with_other_padding(read.target, batch.target_lengths)},
                      input, {});
}

std::size_t room_for_columns(std::size_t length, std::size_t max_length) {
  return std::min(most_columns, max_length - std::min(length, max_length));
}

/// Whether a side of a sentence ends before its row does.
bool has_padding(const Batch& batch) {
  const auto any_below = [](const std::vector<std::size_t>& lengths, std::size_t columns) {
    return std::ranges::any_of(lengths, [&](std::size_t length) { return length < columns; });
  };
  return any_below(batch.source_lengths, batch.source_length) ||
         any_below(batch.target_lengths, batch.target_length);
}

}  // namespace

PropertyResult padding(const Subject& subject) {
  const Batch& batch = subject.batch;
  const std::size_t source = room_for_columns(batch.source_length, subject.max_source_length);
  const std::size_t target = room_for_columns(batch.target_length, subject.max_target_length);
  const Batch wide = widened(batch, source, target);
  if (!has_padding(wide)) return not_asked("nothing is padded, and there is no room for padding");
  const ExaminedModel model = subject.copy(DType::float64);
  const Tensor logits = logits_of(model, batch), wide_logits = logits_of(model, wide);

  const auto content =
      largest_difference(wide, wide_logits, logits_with_other_padding(model, wide));
  if (content.most != 0.0) {
    return fails(fmt::format("{} with other values in the padding", content.to_string()));
  }
  const auto width = largest_difference(batch, logits, wide_logits);
  if (width.most > allowed_rounding() * width.largest) {
    return fails(fmt::format("{} with {} more columns of source padding and {} of target padding",
                             width.to_string(), source, target));
  }
  const double before = loss_of(model, batch, {}), after = loss_of(model, wide, {});
  if (!(std::abs(after - before) <= allowed_rounding() * std::abs(before))) {
    return fails(fmt::format("loss went from {:.15g} to {:.15g} with more padding", before, after));
  }
  return holds(fmt::format(
      "its values change no bit of the logits; {} + {} more columns change them by {} (allowed {})",
      source, target, width.most, allowed_rounding() * width.largest));
}

}  // namespace tapestry
