#include "train/inference/computation_trace.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "autograd/tape.h"
#include "data/batch.h"

namespace tapestry {
namespace {

/// Keeps the operations of a tape and their gradients.
class StepRecorder : public TapeObserver {
 public:
  explicit StepRecorder(const Parameters& parameters) : parameters_(parameters) {}

  void forward_ran(const RecordedCall& call) override {
    TracedStep step{.operation = call.operation,
                    .layer = *call.layer_path,
                    .inputs = {},
                    .output = call.output,
                    .gradient = {},
                    .attention = {},
                    .scale = is_lookup(call) ? scale_of_lookup(call) : 1.0};
    for (const Tensor& input : call.inputs) {
      if (input.defined()) step.inputs.push_back(traced(input));
    }
    // A call of attention starts its trace before it is recorded.
    if (tracer_.traces().size() > attentions_) step.attention = tracer_.traces()[attentions_++];
    indices_[call.output.slot().get()] = steps.size();
    steps.push_back(std::move(step));
  }

  void backward_ran(const GradientSlot& output, const Tensor& dy) override {
    const auto found = indices_.find(&output);
    if (found != indices_.end()) steps[found->second].gradient = dy.copied(dy.dtype());
  }

  /// The output of a step with the values of x, the last one if there are several; else x.
  Tensor recorded(const Tensor& x) const {
    const auto same = [&](const TracedStep& step) {
      return step.output.shape() == x.shape() && step.output.dtype() == x.dtype() &&
             std::ranges::equal(step.output.to_vector(), x.to_vector(), {}, as_bits, as_bits);
    };
    const auto found = std::find_if(steps.rbegin(), steps.rend(), same);
    return found == steps.rend() ? x : found->output;
  }

  std::vector<TracedStep> steps;

 private:
  static std::uint64_t as_bits(double value) { return std::bit_cast<std::uint64_t>(value); }

  static bool is_lookup(const RecordedCall& call) {
    return call.operation == std::string_view("embedding") && call.inputs.size() == 1 && call.again;
  }

  /// The factor of the rows of a table: the output for a table of ones.
  static double scale_of_lookup(const RecordedCall& call) {
    const Tensor ones = Tensor::full(call.inputs[0].shape(), 1.0, call.output.dtype());
    const std::vector<double> scales = call.again(std::span(&ones, 1)).to_vector();
    return scales.empty() ? 1.0 : scales.front();
  }

  TracedInput traced(const Tensor& input) const {
    TracedInput traced{.step = {}, .parameter = {}, .value = input};
    const auto found = indices_.find(input.slot().get());
    if (found != indices_.end()) {
      traced.step = found->second;
      return traced;
    }
    for (const auto& [name, parameter] : parameters_) {
      if (parameter.identity() == input.identity()) traced.parameter = name;
    }
    return traced;
  }

  const Parameters& parameters_;
  AttentionTracer tracer_;
  std::size_t attentions_ = 0;  // traces that belong to a step
  std::unordered_map<const GradientSlot*, std::size_t> indices_;
};

/// The logits, without a record of them.
Tensor unrecorded_logits(const Network& network, const Tensor& features) {
  const NoGrad no_grad;
  return network.logits(features);
}

/// Counts the operations of a tape, and keeps the last one.
class LastOperation : public TapeObserver {
 public:
  void forward_ran(const RecordedCall& call) override {
    ++count;
    name = call.operation;
    output = call.output;
  }
  void backward_ran(const GradientSlot&, const Tensor&) override {}

  std::size_t count = 0;
  std::string name;
  Tensor output;
};

/// Whether the loss of a network is the cross entropy of its logits, computed by one operation that
/// does not store them.
bool has_fused_loss(const Network& network, const Tensor& features, const Ids& labels,
                    const CrossEntropyOptions& options) {
  LastOperation last;
  const Tape tape(&last);
  const Tensor loss =
      network.loss(features.copied(features.dtype()).require_gradient(), labels, options).mean;
  if (last.count != 1 || last.name != "linear_cross_entropy" ||
      last.output.identity() != loss.identity()) {
    return false;
  }
  const double composed =
      cross_entropy(unrecorded_logits(network, features), labels, options).mean.item();
  return !std::isfinite(composed) ||
         std::abs(composed - loss.item()) <= 1e-4 * std::abs(composed) + 1e-6;
}

}  // namespace

ComputationTrace trace_computation(Model& model, const NetworkInput& input, const Ids& labels) {
  const Network& network = *model.network;
  const Mode mode = Mode::inference();
  const CrossEntropyOptions options{.ignored_id = no_label};
  const auto compute_features = [&] {
    return network.features(network.embed(input, mode), input, mode);
  };
  const bool fused = has_fused_loss(network, compute_features(), labels, options);
  model.parameters.clear_gradients();
  StepRecorder recorder(model.parameters);
  Tape tape(&recorder);
  const Tensor features = compute_features();
  const Loss loss = fused ? cross_entropy(network.logits(features), labels, options)
                          : network.loss(features, labels, options);
  const Tensor logits = recorder.recorded(unrecorded_logits(network, features));
  tape.backward(loss.mean);
  return {.steps = std::move(recorder.steps), .logits = logits, .loss = loss.mean.item()};
}

}  // namespace tapestry
