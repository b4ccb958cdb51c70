#include <fmt/format.h>

#include <vector>

#include "train/properties/batch_rows.h"
#include "train/properties/logit_difference.h"
#include "train/properties/properties.h"
#include "train/properties/step.h"

namespace tapestry {
namespace {

/// Back to front, so that for more than one sentence none but the middle one stays.
std::vector<std::size_t> reversed(std::size_t rows) {
  std::vector<std::size_t> order;
  for (std::size_t row = rows; row > 0; --row) order.push_back(row - 1);
  return order;
}

}  // namespace

PropertyResult permutation(const Subject& subject) {
  const Batch& batch = subject.batch;
  if (batch.rows < 2) return not_asked("there is one sentence alone to train on");
  const std::vector<std::size_t> order = reversed(batch.rows);
  const ExaminedModel model = subject.copy(DType::float64);
  const auto difference = largest_difference(batch, logits_of(model, batch),
                                             logits_of(model, rows_of(batch, order)), order);
  const double allowed = allowed_rounding() * difference.largest;
  if (difference.most > allowed) {
    return fails(fmt::format("{} in a batch back to front", difference.to_string()));
  }
  return holds(fmt::format("{} sentences back to front: logits differ by {} (allowed {})",
                           batch.rows, difference.most, allowed));
}

}  // namespace tapestry
