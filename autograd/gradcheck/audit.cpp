#include "autograd/gradcheck/audit.h"

#include <algorithm>

#include "autograd/error.h"
#include "autograd/gradcheck/objectives.h"
#include "autograd/gradcheck/tensor_check.h"

namespace tapestry::gradcheck_detail {
namespace {

Tensor copy_of(const Tensor& input) {
  if (!input) return {};
  Tensor copy = input.copied(input.dtype());
  return input.requires_gradient() ? copy.require_gradient() : copy;
}

/// Numbers of the inputs that want a gradient stand in for their names.
std::vector<NamedTensor> leaves_of(const std::vector<Tensor>& inputs) {
  std::vector<NamedTensor> leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] && inputs[i].requires_gradient())
      leaves.push_back({std::to_string(i), inputs[i]});
  }
  return leaves;
}

std::vector<Shape> shapes_of(const std::vector<Tensor>& inputs) {
  std::vector<Shape> shapes;
  for (const Tensor& input : inputs) shapes.push_back(input ? input.shape() : Shape{});
  return shapes;
}

}  // namespace

void Audit::forward_ran(const RecordedCall& call) {
  Call kept{.operation = call.operation,
            .layer_path = *call.layer_path,
            .inputs = {},
            .again = call.again,
            .output = call.output.slot().get(),
            .dy = {}};
  for (const Tensor& input : call.inputs) kept.inputs.push_back(copy_of(input));
  calls_.push_back(std::move(kept));
}

void Audit::backward_ran(const GradientSlot& output, const Tensor& dy) {
  const auto call = std::ranges::find(calls_, &output, &Call::output);
  if (call != calls_.end()) call->dy = dy.copied(dy.dtype());
}

std::optional<GradcheckRow> Audit::wrong_row(const Call& call,
                                             const GradcheckOptions& options) const {
  if (!call.again || !call.dy) return std::nullopt;
  try {
    const auto function = [&] { return std::vector<NamedTensor>{{"", call.again(call.inputs)}}; };
    Objectives objectives(function, options.seed);
    objectives.leave_out_zeros_of(0, call.dy);
    const auto rows = check(objectives, leaves_of(call.inputs), options);
    const auto wrong = std::ranges::find(rows, GradcheckVerdict::wrong, &GradcheckRow::verdict);
    return wrong == rows.end() ? std::nullopt : std::optional(*wrong);
  } catch (const Error&) {  // an operation with a state of its own, say: it cannot run alone
    return std::nullopt;
  }
}

std::optional<FaultyOperation> Audit::first_wrong(const GradcheckOptions& options) const {
  for (std::size_t index = 0; index < calls_.size(); ++index) {
    const Call& call = calls_[index];
    const auto row = wrong_row(call, options);
    if (!row) continue;
    return FaultyOperation{.index = index,
                           .recorded = calls_.size(),
                           .operation = call.operation,
                           .layer_path = call.layer_path,
                           .input = std::stoul(row->name),
                           .inputs = shapes_of(call.inputs),
                           .row = *row};
  }
  return std::nullopt;
}

}  // namespace tapestry::gradcheck_detail
