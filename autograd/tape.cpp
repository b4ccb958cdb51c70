// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/operation.h"
#include "autograd/profiler.h"

namespace tapestry {
namespace {

using detail::Record;

double count_bytes(const Shape& shape, DType dtype) {
  return static_cast<double>(shape.size() * bytes_per_element(dtype));
}

/// Bytes of dL/dy, and of value and gradient of each input that needs a gradient.
double count_backward_bytes(const Record& record, const Tensor& dy) {
  double bytes = detail::count_bytes(dy);
  for (const auto& slot : record.inputs()) {
    if (slot != nullptr) bytes += 2 * count_bytes(slot->shape(), slot->dtype());
  }
  return bytes;
}

/// Rethrows the error with the name of the operation in front, unless the message already has the
/// name.
template <class E>
E with_operation(const E& error, const Record& record) {
  std::string_view message = error.what();
  const std::string layer = with_layer_path("");
  if (message.starts_with(layer)) message.remove_prefix(layer.size());
  const bool has_name = message.starts_with(fmt::format("{}: ", record.operation())) ||
                        message.starts_with("backward: ");
  return has_name ? E(std::string(message))
                  : E(fmt::format("{}: backward: {}", record.operation(), message));
}

void run_named_backward(const Record& record, const Tensor& dy) {
  try {
    record.backward(dy);
  } catch (const ShapeError& error) {
    throw with_operation(error, record);
  } catch (const DTypeError& error) {
    throw with_operation(error, record);
  } catch (const ValueError& error) {
    throw with_operation(error, record);
  }
}

void run_backward(const Record& record, const Tensor& dy) {
  ProfileScope scope(record.operation(), Phase::backward);
  record.require_unchanged_inputs();
  run_named_backward(record, dy);
  if (scope) scope.add_bytes(count_backward_bytes(record, dy));
}

/// Hash of the bits of x. The check compares hashes instead of copies, so it needs no memory.
std::size_t digest(const Tensor& x) {
  return dispatch(x.dtype(), [&]<class T>() {
    const auto bytes = std::as_bytes(x.values<T>());
    return std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
}

/// Calls run_backward() for a record that may be faulty. Throws ValueError if the record changes a
/// bit of dy.
void run_guarded_backward(const Record& record, const Tensor& dy) {
  const std::size_t before = digest(dy);
  run_backward(record, dy);
  if (digest(dy) == before) return;
  throw ValueError(
      fmt::format("{}: backward has changed the values of dL/dy, which must only be read: "
                  "other operations share its memory",
                  record.operation()));
}

/// Rejects an output of an operation whose record is not on the tape of this backward.
[[noreturn]] void throw_not_recorded(const GradientSlot& output) {
  switch (output.record_state()) {
    case GradientSlot::RecordState::used:
      throw ValueError(
          "backward: an earlier backward has consumed the records of this output: add the losses "
          "and call backward once, or recompute the loss");
    case GradientSlot::RecordState::dropped:
      throw ValueError(
          "backward: the output was recorded by a tape that has been destroyed: recompute the "
          "loss, and call backward on its tape before that tape is destroyed");
    case GradientSlot::RecordState::alive:
      break;
  }
  throw ValueError(
      "backward: the output was recorded by another tape, which still exists: call backward on "
      "that tape; if a thread has several tapes, the innermost one records");
}

/// The first record that has a leaf among its inputs, which is the last record that backward runs.
struct FirstUse {
  const GradientSlot* leaf;
  std::size_t record;  ///< index of the record
};
using FirstUses = std::vector<FirstUse, kernels::PoolAllocator<FirstUse>>;

/// The first uses of all leaves, in the order of the records.
FirstUses first_uses_of_leaves(const auto& records) {
  FirstUses uses;
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (const auto& slot : records[i]->inputs()) {
      if (slot == nullptr || slot->origin() != GradientSlot::Origin::leaf) continue;
      uses.push_back({.leaf = slot.get(), .record = i});
    }
  }
  std::ranges::sort(uses, {}, [](const FirstUse& use) { return std::pair(use.leaf, use.record); });
  const auto is_same = [](const FirstUse& a, const FirstUse& b) { return a.leaf == b.leaf; };
  uses.erase(std::unique(uses.begin(), uses.end(), is_same), uses.end());
  std::ranges::sort(uses, {}, [](const FirstUse& use) { return use.record; });
  return uses;
}

}  // namespace

double detail::count_bytes(const Tensor& x) {
  return x.defined() ? tapestry::count_bytes(x.shape(), x.dtype()) : 0.0;
}

double detail::count_bytes(std::span<const Tensor> list) {
  double bytes = 0.0;
  for (const Tensor& x : list) bytes += count_bytes(x);
  return bytes;
}

detail::Record::Record(const char* operation, std::shared_ptr<GradientSlot> output)
    : operation_(operation), layer_path_(&current_layer_path()), output_(std::move(output)) {}

std::uint64_t detail::Record::sum_of_input_versions() const {
  std::uint64_t total = 0;
  for (const auto& slot : inputs()) total += slot == nullptr ? 0 : slot->version();
  return total;
}

void detail::Record::require_unchanged_inputs() const {
  if (sum_of_input_versions() == input_versions_) return;
  throw ValueError(fmt::format(
      "{}: backward: the values of an input changed after the operation ran (mutable_values), so "
      "gradients would be wrong; change values before the forward pass or after backward",
      operation()));
}

void detail::throw_empty_input(const char* operation, std::span<const Tensor> inputs) {
  const auto first = std::ranges::find_if(inputs, [](const Tensor& x) { return !x.defined(); });
  throw_empty_operand(operation, first == inputs.end()
                                     ? "a Tensor that forward uses"
                                     : fmt::format("input {}", first - inputs.begin() + 1));
}

std::shared_ptr<GradientSlot> detail::new_slot(Tensor& y, const char* operation) {
  if (y.slot() != nullptr || y.is_frozen()) {
    throw ValueError(
        fmt::format("{}: forward returned one of its inputs, expected a different tensor, such as "
                    "x.detach()",
                    operation));
  }
  auto slot = std::allocate_shared<GradientSlot>(kernels::PoolAllocator<GradientSlot>{}, y.shape(),
                                                 y.dtype(), GradientSlot::Origin::operation);
  y.attach(slot);
  return slot;
}

void detail::notify_observer(Tape& tape, Description operation, std::span<const Tensor> inputs,
                             const Tensor& y) {
  const NoGrad no_grad;
  tape.observer()->forward_ran({.operation = operation.name,
                                .formula = std::move(operation.formula),
                                .derivative = std::move(operation.derivative),
                                .layer_path = &current_layer_path(),
                                .inputs = inputs,
                                .output = y,
                                .recompute = std::move(operation.recompute)});
}

Tape::~Tape() {
  for (const auto& record : records_) record->output()->mark_dropped();
}

void Tape::record(std::unique_ptr<Record> record) {
  record->record_input_versions();
  records_.push_back(std::move(record));
}

bool Tape::has_recorded(const GradientSlot& output) const {
  return std::any_of(records_.rbegin(), records_.rend(),
                     [&](const auto& record) { return record->output().get() == &output; });
}

void Tape::backward(const Tensor& loss) {
  if (loss.size() != 1) {
    throw ShapeError(fmt::format("backward: the loss has shape {}, expected one element",
                                 to_string(loss.shape())));
  }
  backward(loss, Tensor::full(loss.shape(), 1.0, loss.dtype()));
}

void Tape::backward(const Tensor& y, const Tensor& dy) {
  if (dy.shape() != y.shape()) {
    throw ShapeError(fmt::format("backward: dL/dy has shape {}, expected {}, the shape of y",
                                 to_string(dy.shape()), to_string(y.shape())));
  }
  common_dtype("backward", y, dy);
  if (!y.requires_grad()) {
    throw ValueError(
        "backward: the output does not depend on a tensor that requires a gradient, or was "
        "computed without a tape on this thread");
  }
  if (y.slot()->origin() == GradientSlot::Origin::operation && !has_recorded(*y.slot())) {
    throw_not_recorded(*y.slot());
  }
  const NoGrad no_grad;
  FirstUses first_uses;
  if (on_gradient_complete_) first_uses = first_uses_of_leaves(records_);
  y.slot()->add(dy);
  while (!records_.empty()) {
    const std::unique_ptr<Record> record = std::move(records_.back());
    records_.pop_back();
    propagate(*record);
    for (; !first_uses.empty() && first_uses.back().record == records_.size();
         first_uses.pop_back()) {
      on_gradient_complete_(*first_uses.back().leaf);
    }
  }
}

/// Runs the backward pass of a record if there is a gradient of its output.
void Tape::propagate(const Record& record) {
  GradientSlot& output = *record.output();
  if (!output.filled()) return;
  const LayerPath here(record.layer_path());
  const Tensor gradient = output.value().make_read_only(record.operation());
  output.clear();
  output.keep(gradient);
  (detects_writes_ ? run_guarded_backward : run_backward)(record, gradient);
  if (observer_ != nullptr) observer_->backward_ran(output, gradient);
}

}  // namespace tapestry
