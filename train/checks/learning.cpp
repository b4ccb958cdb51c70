// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "autograd/ops/losses.h"
#include "optim/adam.h"
#include "optim/optimizer.h"
#include "train/checks/check.h"
#include "train/checks/one_step.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace {

// ---- Initial loss.

/// Tolerance in nats. Initial logits have a variance of up to 2 if d_model exceeds the vocabulary,
/// and of 1 with tied embeddings; half of the variance adds to the loss. A tied model initially
/// favors the token that it has just read: the product of the token's vector with itself gives a
/// logit of up to sqrt(d_model).
double initial_loss_tolerance(const CheckContext& context) {
  if (context.tied_width == 0) return 1.5;
  const double favored = std::exp(std::sqrt(static_cast<double>(context.tied_width)));
  return 1.5 + std::log1p(favored / static_cast<double>(context.vocabulary));
}

// ---- Overfitting one batch.

constexpr std::size_t min_steps = 600;  ///< before the check may end because the loss stagnates
constexpr std::size_t max_steps = 6000;
/// The loss stagnates if its distance to the minimum does not shrink to this factor in
/// `progress_steps`.
constexpr double progress_factor = 0.97;
constexpr std::size_t progress_steps = 200;
constexpr double learned = 0.05;  ///< in nats per token, above the minimum
constexpr double learning_rate = 1e-3;
constexpr std::size_t warmup_steps = 50;  ///< deep post-norm models need warmup
constexpr double clip_norm = 1.0;

/// Trains with Adam and fixed options, since the check tests the model, not the configured
/// optimizer.
class OneBatchTrainer {
 public:
  explicit OneBatchTrainer(CheckedModel model)
      : model_(std::move(model)), adam_(model_.parameters, OptimizerOptions{}) {}

  /// Takes one step; returns the loss before the update.
  double step(const Batch& batch) {
    model_.zero_grad();
    const double loss = run_step(model_, batch, {}).loss;
    const double norm = global_gradient_norm(model_.parameters);
    const auto next = static_cast<double>(adam_.steps() + 1);
    const double warmup = std::min(1.0, next / static_cast<double>(warmup_steps));
    adam_.step(warmup * learning_rate, clip_factor(norm, clip_norm));
    return loss;
  }

 private:
  CheckedModel model_;
  Adam adam_;
};

// ---- Minimum loss.

template <class T>
void append(std::string& bytes, const std::vector<T>& values, std::size_t begin, std::size_t end) {
  bytes.append(reinterpret_cast<const char*>(values.data() + begin), (end - begin) * sizeof(T));
}

/// The inputs that a label may depend on, as bytes.
std::string inputs_of_label(const Batch& batch, std::size_t row, std::size_t position,
                            bool causal) {
  std::string bytes;
  const std::size_t source = row * batch.source_length, target = row * batch.target_length;
  const std::size_t pixels = batch.pixels.size() / batch.rows;
  append(bytes, batch.source, source, source + batch.source_length);
  append(bytes, batch.pixels, row * pixels, (row + 1) * pixels);
  append(bytes, batch.input, target, target + (causal ? position + 1 : batch.target_length));
  return causal ? bytes : bytes + std::to_string(position);
}

/// The lowest mean loss of predictions from inputs(row, position), which returns the inputs as
/// bytes.
template <class Inputs>
double minimum_loss_of(const Batch& batch, const Inputs& inputs) {
  std::map<std::string, std::map<std::int32_t, std::size_t>> counts_by_inputs;
  for (std::size_t row = 0; row < batch.rows; ++row) {
    for (std::size_t i = 0; i < batch.target_length; ++i) {
      const std::int32_t label = batch.labels[row * batch.target_length + i];
      if (label != no_label) ++counts_by_inputs[inputs(row, i)][label];
    }
  }
  double nll = 0.0;
  for (const auto& [bytes, counts] : counts_by_inputs) {
    double total = 0.0;
    for (const auto& [label, count] : counts) total += static_cast<double>(count);
    for (const auto& [label, count] : counts) {
      nll += static_cast<double>(count) * std::log(total / static_cast<double>(count));
    }
  }
  return nll / static_cast<double>(std::max<std::size_t>(batch.target_tokens, 1));
}

/// The lowest loss of predictions from only the tokens that influence the logits of each label, and
/// from their distances to the label. Needed for a model that reads only some of the tokens before
/// a label, such as a bigram model. Infinity if the logits of a label depend on no token, which is
/// an error of the model.
double minimum_loss_of_read_tokens(const CheckContext& context) {
  const Batch& batch = context.batch;
  const CheckedModel model = context.copy(DType::float64);
  std::vector<Influence> influences;
  for (std::size_t t = 0; t < batch.target_length; ++t) {
    influences.push_back(influence_on(t, model, batch));
  }
  bool reads_nothing = false;
  const double minimum = minimum_loss_of(batch, [&](std::size_t row, std::size_t t) {
    std::string bytes;
    const auto add = [&](const std::vector<double>& influence, const std::vector<std::int32_t>& ids,
                         std::size_t origin) {
      const std::size_t length = influence.size() / batch.rows;
      for (std::size_t i = 0; i < length; ++i) {
        const std::size_t index = row * length + i;
        if (influence[index] == 0.0) continue;
        bytes += fmt::format("{} {} ", i - origin, index < ids.size() ? ids[index] : 0);
      }
    };
    add(influences[t].target, batch.input, t);
    bytes += '|';
    add(influences[t].source, batch.source, 0);
    reads_nothing = reads_nothing || bytes.size() == 1;
    const std::size_t pixels = batch.pixels.size() / batch.rows;
    append(bytes, batch.pixels, row * pixels, (row + 1) * pixels);
    return bytes;
  });
  return reads_nothing ? std::numeric_limits<double>::infinity() : minimum;
}

/// Why even a correct model may not reach a loss below the limit; empty if every correct model
/// should.
std::string capacity_limit(const CheckContext& context, double loss) {
  if (!context.learning_limit.empty()) return context.learning_limit;
  std::size_t values = 0;
  for (const NamedTensor& each : context.copy(DType::float32).parameters) {
    values += each.tensor.size();
  }
  if (values < context.batch.target_tokens) {
    return fmt::format("it has {} parameters for {} labels", values, context.batch.target_tokens);
  }
  const double minimum = minimum_loss_of_read_tokens(context);
  if (std::isfinite(minimum) && loss < minimum + learned) {
    return fmt::format(
        "from the tokens that it reads for each label, no model reaches a loss below {:.4f}",
        minimum);
  }
  return "";
}

// ---- Gradients of all parameters.

/// Threshold relative to the largest gradient. Smaller gradients are treated as 0.
constexpr double zero_gradient = 1e-13;

double max_magnitude(const std::vector<double>& gradient) {
  double largest = 0.0;
  for (const double g : gradient) largest = std::max(largest, std::abs(g));
  return largest;
}

/// True for the bias of a key projection if scores are dot products and keys are not rotated. The
/// bias then adds a constant to all scores of a query, which does not change their softmax.
bool may_be_zero(const std::string& parameter) { return parameter.ends_with("k_proj.bias"); }

}  // namespace

CheckResult initial_loss(const CheckContext& context) {
  const CheckedModel model = context.copy(DType::float64);
  const double loss =
      cross_entropy(compute_logits(model, context.batch), label_ids(context.batch),
                    {.ignored_id = no_label, .label_smoothing = context.label_smoothing})
          .mean.item();
  if (context.trained)
    return skipped(fmt::format("the model is trained; its loss is {:.3f}", loss));
  if (context.has_running_averages) {
    return skipped(
        fmt::format("the running averages of batch norm are untrained; the loss is {:.3f}", loss));
  }
  const double guessing = std::log(static_cast<double>(context.vocabulary));
  const double tolerance = initial_loss_tolerance(context);
  const std::string details = fmt::format("loss {:.3f}, ln({}) is {:.3f}, tolerance {:.3g}", loss,
                                          context.vocabulary, guessing, tolerance);
  return std::abs(loss - guessing) <= tolerance ? passed(details) : failed(details);
}

CheckResult overfit_batch(const CheckContext& context) {
  OneBatchTrainer trainer(context.copy(DType::float32));
  const double minimum = minimum_loss(context.batch, context.causal);
  const double limit = minimum + learned;
  const double first = trainer.step(context.batch);
  double loss = first;
  double earlier = first;  // the loss `progress_steps` before
  std::size_t steps = 1;
  while (steps < max_steps && std::isfinite(loss) && loss >= limit) {
    loss = trainer.step(context.batch);
    ++steps;
    if (steps % progress_steps != 0) continue;
    const bool falls = loss - minimum < progress_factor * (earlier - minimum);
    if (steps >= min_steps && !falls) break;
    earlier = loss;
  }
  std::string details = fmt::format("loss of {} examples from {:.3f} to {:.4f} in {} steps",
                                    context.batch.rows, first, loss, steps - 1);
  if (minimum > 0.0) details += fmt::format(", the minimum is {:.4f}", minimum);
  if (loss < limit) return passed(details);
  if (const std::string limit_of_model = capacity_limit(context, loss); !limit_of_model.empty()) {
    return skipped(fmt::format("{}: {}", details, limit_of_model));
  }
  return failed(fmt::format("{}, expected less than {:.4g}", details, limit));
}

CheckResult parameters_have_gradients(const CheckContext& context) {
  CheckedModel model = context.copy(DType::float64);
  const StepValues step =
      run_step(model, context.batch, {.label_smoothing = context.label_smoothing});
  double largest = 0.0;
  for (const auto& gradient : step.gradients) {
    largest = std::max(largest, max_magnitude(gradient));
  }
  std::size_t zero_key_biases = 0;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const std::string& name = model.parameters[i].name;
    if (step.gradients[i].empty()) return failed(fmt::format("{} has no gradient", name));
    const double magnitude = max_magnitude(step.gradients[i]);
    if (magnitude > zero_gradient * largest) continue;
    if (!may_be_zero(name)) {
      return failed(
          fmt::format("the gradient of {} is at most {:.1e}, the largest gradient is {:.1e}", name,
                      magnitude, largest));
    }
    ++zero_key_biases;
  }
  return passed(fmt::format("{} of {} parameters have a gradient; for {} key biases it is always 0",
                            model.parameters.size() - zero_key_biases, model.parameters.size(),
                            zero_key_biases));
}

double minimum_loss(const Batch& batch, bool causal) {
  return minimum_loss_of(batch, [&](std::size_t row, std::size_t position) {
    return inputs_of_label(batch, row, position, causal);
  });
}

}  // namespace tapestry
