#include "train/inference/computation_trace.h"

#include <algorithm>
#include <unordered_map>

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
                    .attention = {}};
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

  std::vector<TracedStep> steps;

 private:
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

}  // namespace

ComputationTrace trace_computation(Model& model, const NetworkInput& input, const Ids& labels) {
  const Network& network = *model.network;
  const Mode mode = Mode::inference();
  model.parameters.clear_gradients();
  StepRecorder recorder(model.parameters);
  Tape tape(&recorder);
  Tensor logits = network.logits(network.features(network.embed(input, mode), input, mode));
  const Loss loss = cross_entropy(logits, labels, {.ignored_id = no_label});
  tape.backward(loss.mean);
  return {
      .steps = std::move(recorder.steps), .logits = std::move(logits), .loss = loss.mean.item()};
}

}  // namespace tapestry
