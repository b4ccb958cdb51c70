// SPDX-License-Identifier: BSD-3-Clause
#include "layers/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "autograd/error.h"
#include "autograd/named_tensor.h"

namespace tapestry {
namespace {

Tensor without_value(const Shape& shape, DType dtype) {
  return Tensor::over(shape, dtype, kernels::Memory(), 0);
}

}  // namespace

Parameters::Parameters(DType dtype, std::uint64_t seed)
    : dtype_(dtype), random_(RandomStream(seed).named("parameters")) {}

Parameters Parameters::without_values(DType dtype) {
  Parameters parameters(dtype, 0);
  parameters.values_ = Values::none;
  return parameters;
}

Parameters Parameters::with_zeros(DType dtype) {
  Parameters parameters(dtype, 0);
  parameters.values_ = Values::zeros;
  return parameters;
}

Tensor Parameters::initial(const std::string& name, const Shape& shape,
                           const Initializer& initializer) const {
  if (find(name) != nullptr ||
      std::ranges::find(buffers_, name, &NamedTensor::name) != buffers_.end()) {
    throw ValueError(fmt::format("parameters: `{}` already exists", name));
  }
  if (gathered_) {
    throw ValueError(fmt::format("parameters: `{}` cannot be created after `gather`", name));
  }
  if (values_ == Values::none) return without_value(shape, dtype_);
  if (values_ == Values::zeros) return Tensor::zeros(shape, dtype_);
  Tensor tensor = Tensor::empty(shape, dtype_);
  initialize(tensor, initializer, random_.named(name));
  return tensor;
}

Tensor Parameters::create(const std::string& name, const Shape& shape,
                          const Initializer& initializer) {
  Tensor tensor = initial(name, shape, initializer);
  list_.push_back({name, tensor.set_requires_grad(true)});
  return tensor;
}

RunningAverage Parameters::create_buffer(const std::string& name, const Shape& shape,
                                         const Initializer& initializer) {
  const Tensor tensor = initial(name, shape, initializer);
  buffers_.push_back({name, tensor});
  return averages_.emplace_back(tensor);
}

Tensor Parameters::constant(const Shape& shape, const std::function<Tensor(DType)>& make) {
  num_constants_ += shape.size();
  return values_ == Values::none ? without_value(shape, dtype_) : make(dtype_);
}

void Parameters::gather() {
  const FlatBuffer values(list_);
  const FlatBuffer gradients(list_);
  for (std::size_t i = 0; i < list_.size(); ++i) {
    list_[i].tensor.move_into(values.memory(), values.offset(i), gradients.memory(),
                              gradients.offset(i));
  }
  gathered_ = true;
  kernels::release_unused_memory();  // frees the memory of the separate tensors
}

const NamedTensor* Parameters::find(std::string_view name) const {
  const auto found = std::ranges::find(list_, name, &NamedTensor::name);
  return found == list_.end() ? nullptr : &*found;
}

std::size_t Parameters::num_values() const {
  std::size_t total = 0;
  for (const NamedTensor& parameter : list_) total += parameter.tensor.size();
  return total;
}

void Parameters::freeze(std::string_view path) {
  for (const std::size_t i : indices_below("freeze", path, list_))
    list_[i].tensor.set_requires_grad(false);
}

void Parameters::unfreeze(std::string_view path) {
  for (const std::size_t i : indices_below("unfreeze", path, list_)) {
    list_[i].tensor.set_requires_grad(true);
  }
}

void Parameters::zero_grad() {
  for (NamedTensor& parameter : list_) parameter.tensor.zero_grad();
  discard_pending();
}

std::vector<NamedTensor> Parameters::all() const {
  std::vector<NamedTensor> both = list_;
  both.insert(both.end(), buffers_.begin(), buffers_.end());
  return both;
}

std::vector<NamedTensor> Parameters::state_dict() const {
  std::vector<NamedTensor> copies = all();
  for (NamedTensor& each : copies) each.tensor = each.tensor.detach().to(dtype_);
  return copies;
}

namespace {

/// The tensor of `state` for a parameter or buffer.
const Tensor& value_in(std::span<const NamedTensor> state, const NamedTensor& wanted) {
  const auto found = std::ranges::find(state, wanted.name, &NamedTensor::name);
  if (found == state.end()) {
    throw ValueError(fmt::format("load_state_dict: the state has no `{}`", wanted.name));
  }
  if (found->tensor.shape() != wanted.tensor.shape()) {
    throw ShapeError(fmt::format("load_state_dict: `{}` has shape {} in the state, expected {}",
                                 wanted.name, to_string(found->tensor.shape()),
                                 to_string(wanted.tensor.shape())));
  }
  return found->tensor;
}

/// Throws ValueError for the first tensor of `state` whose name is not in `wanted` or occurs twice.
[[noreturn]] void reject_unexpected(std::span<const NamedTensor> state,
                                    std::span<const NamedTensor> wanted) {
  std::set<std::string_view> expected;
  for (const NamedTensor& each : wanted) expected.insert(each.name);
  const auto odd = std::ranges::find_if(
      state, [&](const NamedTensor& each) { return expected.erase(each.name) == 0; });
  throw ValueError(fmt::format(
      "load_state_dict: the state has `{}`, expected each parameter and buffer once", odd->name));
}

}  // namespace

void Parameters::load_state_dict(std::span<const NamedTensor> state) {
  const std::vector<NamedTensor> wanted = all();
  std::vector<Tensor> values;
  for (const NamedTensor& each : wanted) {
    values.push_back(value_in(state, each).detach().to(dtype_));
  }
  if (state.size() != wanted.size()) reject_unexpected(state, wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Tensor to = wanted[i].tensor;
    dispatch(dtype_, [&]<class T>() {
      std::ranges::copy(values[i].values<T>(), to.mutable_values<T>().begin());
    });
  }
}

void Parameters::commit_buffers() {
  for (const RunningAverage& average : averages_) average.commit();
}

void Parameters::discard_pending() { std::ranges::for_each(averages_, &RunningAverage::discard); }

Scope::Scope(Parameters& parameters, std::string path)
    : parameters_(&parameters), path_(&interned_path(path)) {}

Scope Scope::operator/(std::string_view name) const {
  return Scope(*parameters_,
               path_->empty() ? std::string(name) : fmt::format("{}.{}", *path_, name));
}

Scope Scope::operator/(std::size_t index) const { return *this / std::to_string(index); }

Tensor Scope::parameter(std::string_view name, const Shape& shape,
                        const Initializer& initializer) const {
  return parameters_->create((*this / name).path(), shape, initializer);
}

RunningAverage Scope::buffer(std::string_view name, const Shape& shape,
                             const Initializer& initializer) const {
  return parameters_->create_buffer((*this / name).path(), shape, initializer);
}

Tensor Scope::constant(const Shape& shape, const std::function<Tensor(DType)>& make) const {
  return parameters_->constant(shape, make);
}

}  // namespace tapestry
