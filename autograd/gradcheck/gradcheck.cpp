// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/gradcheck/gradcheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/gradcheck/objectives.h"
#include "autograd/gradcheck/tensor_check.h"
#include "autograd/tape.h"

namespace tapestry {
namespace {

using gradcheck_detail::Objectives;

Tensor copy_input(const Tensor& input) {
  if (!input.defined()) return {};
  Tensor copy = input.clone();
  return input.requires_grad() ? copy.set_requires_grad(true) : copy;
}

/// The inputs that require a gradient, named by their index.
/// The indices of the inputs that require a gradient.
std::vector<std::size_t> gradient_leaves(const std::vector<Tensor>& inputs) {
  std::vector<std::size_t> leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i].requires_grad()) leaves.push_back(i);
  }
  return leaves;
}

std::vector<Shape> input_shapes(const std::vector<Tensor>& inputs) {
  std::vector<Shape> shapes;
  for (const Tensor& input : inputs) shapes.push_back(input.defined() ? input.shape() : Shape{});
  return shapes;
}

/// Keeps every operation of a tape with copies of its inputs, and checks each operation separately
/// afterwards. Only elements of the output whose gradient was not exactly zero get random weights:
/// under masks and in padding, an operation may omit contributions that nothing depends on.
class OperationCheck final : public TapeObserver {
 public:
  void forward_ran(const RecordedCall& call) override;
  void backward_ran(const GradientSlot& output, const Tensor& dy) override;

  /// The first operation with a wrong gradient, in execution order.
  std::optional<FaultyOperation> first_wrong(const GradcheckOptions& options) const;

 private:
  struct Call {
    std::string operation, layer_path;
    std::vector<Tensor> inputs;  ///< copies; a copy is a leaf if its input required a gradient
    std::function<Tensor(std::span<const Tensor>)> recompute;
    const GradientSlot* output;  ///< identifies the call during the lifetime of the tape
    Tensor dy;                   ///< empty if backward did not reach the call
  };

  std::vector<FaultyInput> wrong_inputs(const Call& call, const GradcheckOptions& options) const;

  std::vector<Call> calls_;
};

void OperationCheck::forward_ran(const RecordedCall& call) {
  Call kept{.operation = call.operation,
            .layer_path = *call.layer_path,
            .inputs = {},
            .recompute = call.recompute,
            .output = call.output.slot().get(),
            .dy = {}};
  for (const Tensor& input : call.inputs) kept.inputs.push_back(copy_input(input));
  calls_.push_back(std::move(kept));
}

void OperationCheck::backward_ran(const GradientSlot& output, const Tensor& dy) {
  const auto call = std::ranges::find(calls_, &output, &Call::output);
  if (call != calls_.end()) call->dy = dy.clone();
}

std::vector<FaultyInput> OperationCheck::wrong_inputs(const Call& call,
                                                      const GradcheckOptions& options) const {
  if (!call.recompute || !call.dy.defined()) return {};
  std::vector<FaultyInput> wrong;
  try {
    const auto function = [&] {
      return std::vector<NamedTensor>{{"", call.recompute(call.inputs)}};
    };
    Objectives objectives(function, options.seed);
    objectives.mask_zero_gradients(0, call.dy);
    const std::vector<std::size_t> leaves = gradient_leaves(call.inputs);
    std::vector<NamedTensor> tensors;
    for (const std::size_t i : leaves) tensors.push_back({std::to_string(i), call.inputs[i]});
    auto rows = gradcheck_detail::check(objectives, tensors, options);  // a row for each leaf
    for (std::size_t k = 0; k < rows.size(); ++k) {
      if (rows[k].verdict != GradcheckVerdict::wrong) continue;
      wrong.push_back({.input = leaves[k], .row = std::move(rows[k])});
    }
  } catch (const Error&) {  // for instance an operation with state, which cannot run separately
  }
  return wrong;
}

std::optional<FaultyOperation> OperationCheck::first_wrong(const GradcheckOptions& options) const {
  for (std::size_t index = 0; index < calls_.size(); ++index) {
    const Call& call = calls_[index];
    std::vector<FaultyInput> wrong = wrong_inputs(call, options);
    if (wrong.empty()) continue;
    return FaultyOperation{.index = index,
                           .recorded = calls_.size(),
                           .operation = call.operation,
                           .layer_path = call.layer_path,
                           .inputs = input_shapes(call.inputs),
                           .wrong_inputs = std::move(wrong)};
  }
  return std::nullopt;
}

void require_checkable(const NamedTensor& named) {
  if (named.tensor.dtype() != DType::float64) {
    throw DTypeError(
        fmt::format("gradcheck: `{}` is {}, expected float64: differences of float32 "
                    "values are too coarse",
                    named.name, name(named.tensor.dtype())));
  }
  if (!named.tensor.requires_grad()) {
    throw ValueError(fmt::format("gradcheck: `{}` does not require a gradient", named.name));
  }
}

void require_usable(const GradcheckOptions& options) {
  const auto require = [](bool usable, const char* field, double value) {
    if (usable) return;
    throw ValueError(
        fmt::format("gradcheck: {} is {}, expected a finite number > 0", field, printable(value)));
  };
  require(std::isfinite(options.step) && options.step > 0, "step", options.step);
  require(std::isfinite(options.tolerance) && options.tolerance > 0, "tolerance",
          options.tolerance);
}

/// Checks the operations that compute the output of the first wrong row, one by one.
std::optional<FaultyOperation> locate(const GradcheckReport& report, const Objectives& objectives,
                                      std::span<const NamedTensor> tensors,
                                      const GradcheckOptions& options) {
  const auto wrong =
      std::ranges::find(report.rows, GradcheckVerdict::wrong, &GradcheckRow::verdict);
  if (wrong == report.rows.end()) return std::nullopt;
  const auto output = static_cast<std::size_t>(wrong - report.rows.begin()) / tensors.size();
  OperationCheck check;
  objectives.gradients(output, tensors, &check);
  return check.first_wrong(options);
}

}  // namespace

GradcheckReport gradcheck_outputs(const std::function<std::vector<NamedTensor>()>& function,
                                  std::span<const NamedTensor> tensors,
                                  const GradcheckOptions& options) {
  require_usable(options);
  std::ranges::for_each(tensors, require_checkable);
  const Objectives objectives(function, options.seed);
  GradcheckReport report;
  report.rows = gradcheck_detail::check(objectives, tensors, options);
  if (options.locate) report.first_wrong = locate(report, objectives, tensors, options);
  return report;
}

GradcheckReport gradcheck(const std::function<Tensor()>& function,
                          std::span<const NamedTensor> tensors, const GradcheckOptions& options) {
  return gradcheck_outputs(
      [&] {
        return std::vector<NamedTensor>{{"", function()}};
      },
      tensors, options);
}

}  // namespace tapestry
