#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "optim/adam.h"
#include "optim/clip.h"
#include "train/properties/properties.h"
#include "train/properties/step.h"

namespace tapestry {
namespace {

constexpr std::size_t most_steps = 300;
constexpr double learnt = 0.05;  ///< nats per token above what nobody can know
constexpr double learning_rate = 1e-3;
constexpr std::size_t warmup_steps = 50;  ///< deep post-norm models need them
constexpr double clip_norm = 1.0;

/// What a label is predicted from: the source, the pixels, and the target up to it or, if nothing
/// is hidden from the left, all of it.
using Knowledge = std::tuple<std::vector<std::int32_t>, std::vector<float>,
                             std::vector<std::int32_t>, std::size_t>;

template <class T>
std::vector<T> row_of(const std::vector<T>& all, std::size_t rows, std::size_t row) {
  const auto length = static_cast<std::ptrdiff_t>(all.size() / rows);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row) * length;
  return {begin, begin + length};
}

Knowledge knowledge_of(const Batch& batch, std::size_t row, std::size_t position, bool causal) {
  std::vector<std::int32_t> target = row_of(batch.decoder_input, batch.rows, row);
  if (causal) target.resize(position + 1);
  return {row_of(batch.source, batch.rows, row), row_of(batch.pixels, batch.rows, row),
          std::move(target), position};
}

/// The least mean of -log p(label) that is possible: sentences may begin alike and go on
/// differently.
double least_loss(const Batch& batch, bool causal) {
  std::map<Knowledge, std::map<std::int32_t, std::size_t>> labels;
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] == no_label) continue;
    const std::size_t row = i / batch.target_length, position = i % batch.target_length;
    ++labels[knowledge_of(batch, row, position, causal)][batch.labels[i]];
  }
  double sum = 0.0;
  for (const auto& [known, counts] : labels) {
    std::size_t all = 0;
    for (const auto& [label, count] : counts) all += count;
    for (const auto& [label, count] : counts) {
      const auto times = static_cast<double>(count);
      sum -= times * std::log(times / static_cast<double>(all));
    }
  }
  return sum / static_cast<double>(batch.target_tokens);
}

/// Adam with settings of its own: what is tried is the model, not the configured optimiser.
class Learner {
 public:
  explicit Learner(ExaminedModel model)
      : model_(std::move(model)), adam_(model_.parameters, OptimizerOptions{}) {}

  /// One step; the loss before it.
  double step(const Batch& batch) {
    model_.clear_gradients();
    const double loss = run_step(model_, batch, {}).loss;
    const double norm = global_gradient_norm(model_.parameters);
    const auto next = static_cast<double>(adam_.steps() + 1);
    const double warmth = std::min(1.0, next / static_cast<double>(warmup_steps));
    adam_.step(warmth * learning_rate, clip_factor(norm, clip_norm));
    return loss;
  }

 private:
  ExaminedModel model_;
  Adam adam_;
};

}  // namespace

PropertyResult by_heart(const Subject& subject) {
  Learner learner(subject.copy(DType::float32));
  const double aim = least_loss(subject.batch, subject.causal) + learnt;
  const double first = learner.step(subject.batch);
  double loss = first;
  std::size_t steps = 1;
  while (steps < most_steps && std::isfinite(loss) && loss >= aim) {
    loss = learner.step(subject.batch);
    ++steps;
  }
  const std::string course = fmt::format("loss of {} sentences from {:.3f} to {:.4f} in {} steps",
                                         subject.batch.rows, first, loss, steps - 1);
  return loss < aim ? holds(course)
                    : fails(fmt::format("{}, expected less than {:.3g}", course, aim));
}

}  // namespace tapestry
