#include "train/report/computation_trace.h"

#include <unordered_map>
#include <utility>

#include "autograd/tape.h"
#include "data/batch.h"

namespace tapestry {
namespace {

/// Keeps the operations of a tape and their gradients.
class StepRecorder : public TapeObserver {
 public:
  explicit StepRecorder(const Parameters& parameters) {
    for (const auto& [name, tensor] : parameters) parameters_[tensor.identity()] = name;
  }

  void forward_ran(const RecordedCall& call) override {
    TracedStep step{.operation = call.operation,
                    .formula = call.formula,
                    .derivative = call.derivative,
                    .layer = *call.layer_path,
                    .inputs = {},
                    .output = call.output,
                    .gradient = {},
                    .attention = {}};
    for (const Tensor& input : call.inputs) {
      if (input.defined()) step.inputs.push_back(traced(input));
    }
    // A call of attention starts its trace before it is recorded.
    if (tracer_.traces().size() > attentions_) step.attention = tracer_.traces()[attentions_++];
    if (call.operation == logits_reader) logits_step_ = step.inputs.at(0).step;
    indices_[call.output.slot().get()] = steps.size();
    steps.push_back(std::move(step));
  }

  void backward_ran(const GradientSlot& output, const Tensor& dy) override {
    const auto found = indices_.find(&output);
    if (found != indices_.end()) steps[found->second].gradient = dy.copied(dy.dtype());
  }

  bool splits_fused() const override { return true; }

  /// The input of the last cross entropy; absent without one.
  Tensor logits() const { return logits_step_ ? steps[*logits_step_].output : Tensor(); }

  std::vector<TracedStep> steps;

 private:
  static constexpr std::string_view logits_reader = "cross_entropy";

  TracedInput traced(const Tensor& input) const {
    TracedInput traced{.step = {}, .parameter = {}, .value = input};
    const auto step = indices_.find(input.slot().get());
    if (step != indices_.end()) {
      traced.step = step->second;
    } else if (const auto name = parameters_.find(input.identity()); name != parameters_.end()) {
      traced.parameter = name->second;
    }
    return traced;
  }

  AttentionTracer tracer_;
  std::size_t attentions_ = 0;  // traces that belong to a step
  std::unordered_map<const void*, std::string> parameters_;
  std::unordered_map<const GradientSlot*, std::size_t> indices_;
  std::optional<std::size_t> logits_step_;
};

}  // namespace

ComputationTrace trace_computation(Model& model, const NetworkInput& input, const Ids& labels) {
  const Network& network = *model.network;
  const Mode mode = Mode::inference();
  model.parameters.clear_gradients();
  StepRecorder recorder(model.parameters);
  Tape tape(&recorder);
  const Tensor features = network.features(network.embed(input, mode), input, mode);
  const Loss loss = network.loss(features, labels, {.ignored_id = no_label});
  Tensor logits = recorder.logits();
  if (!logits.defined()) {
    const NoGrad no_grad;
    logits = network.logits(features);
  }
  tape.backward(loss.mean);
  return {.steps = std::move(recorder.steps),
          .logits = std::move(logits),
          .loss = loss.mean.item()};
}

}  // namespace tapestry
