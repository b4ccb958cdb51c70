// SPDX-License-Identifier: BSD-3-Clause
#include "train/parallel/gradient_sum.h"

#include <algorithm>
#include <stdexcept>

#include "autograd/error.h"
#include "autograd/kernels/parallel.h"
#include "train/parallel/bfloat16.h"

namespace tapestry {
namespace {

template <class T>
void copy(const T* from, std::size_t n, T* to) {
  kernels::parallel_ranges(n, kernels::elements_per_piece, [&](std::size_t begin, std::size_t end) {
    std::copy(from + begin, from + end, to + begin);
  });
}

template <class T>
void add_to(const kernels::Target<T>& to, const T* from, std::size_t n) {
  kernels::parallel_ranges(n, kernels::elements_per_piece, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) to.put(i, from[i]);
  });
}

/// The memory of a parameter's gradient. Marks the parameter as having a gradient.
std::byte* memory_of_gradient(const Tensor& parameter) {
  return dispatch(parameter.dtype(), [&]<class T>() {
    return reinterpret_cast<std::byte*>(parameter.slot()->template target<T>().data);
  });
}

void fill_with_minus_zero(std::byte* values, std::size_t n, DType dtype) {
  dispatch(dtype, [&]<class T>() { std::fill_n(reinterpret_cast<T*>(values), n, -T{0}); });
}

}  // namespace

GradientSum::GradientSum(Parameters& parameters, std::size_t micro_batches, ProcessGroup& group,
                         const ExchangeOptions& options)
    : parameters_(parameters),
      micro_batches_(micro_batches),
      bfloat16_(options.bfloat16),
      group_(group),
      own_(micro_batch_range(group.rank(), group.size(), micro_batches)),
      next_(own_.begin),
      layout_(parameters.list()),
      has_gradient_(parameters.list().size(), false) {
  if (group.size() > 1) {
    gradients_ = find_gradients();
    exchange_.emplace(parameters, micro_batches, group, options);
    list_buckets();
  }
  begin_micro_batch();
}

/// The block of memory that contains the gradients of all parameters.
kernels::Memory GradientSum::find_gradients() {
  if (!parameters_.is_gathered()) {
    throw std::logic_error(
        "gradient sum: found parameters in separate blocks of memory, expected "
        "Parameters::gather()");
  }
  kernels::Memory block;
  for (std::size_t i = 0; i < parameters_.list().size(); ++i) {
    Tensor tensor = parameters_.list()[i].tensor;
    if (tensor.slot() == nullptr) continue;  // the parameter is frozen
    memory_of_gradient(tensor);
    block = tensor.grad().memory();
    tensor.zero_grad();
    slots_.emplace_back(tensor.slot().get(), i);
  }
  if (!block) {
    throw ValueError(
        "gradient sum: all parameters are frozen, expected at least one trainable parameter");
  }
  std::ranges::sort(slots_);
  return block;
}

void GradientSum::list_buckets() {
  const auto& buckets = exchange_->layout().buckets();
  buckets_.resize(parameters_.list().size());
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    missing_.push_back(buckets[bucket].end - buckets[bucket].first);
    for (std::size_t i = buckets[bucket].first; i < buckets[bucket].end; ++i) buckets_[i] = bucket;
  }
}

void GradientSum::begin_micro_batch() {
  is_complete_.assign(parameters_.list().size(), false);
  TreeNode node{.first = next_, .count = 1};
  for (merging_ = 0; merging_ < waiting_.size(); ++merging_) {
    const TreeNode& left = waiting_[waiting_.size() - 1 - merging_].node;
    if (!are_siblings(left, node)) break;
    node = {.first = left.first, .count = 2 * left.count};
  }
}

void GradientSum::follow(Tape& tape) {
  if (!exchange_ || !is_last()) return;
  tape.on_gradient_complete([this](const GradientSlot& leaf) {
    const auto found =
        std::ranges::lower_bound(slots_, &leaf, {}, [](const auto& slot) { return slot.first; });
    if (found != slots_.end() && found->first == &leaf) complete(found->second);
  });
}

/// Called when the next micro-batch's gradient of a parameter is final. Adds the waiting sums that
/// this micro-batch completes.
void GradientSum::complete(std::size_t parameter) {
  if (is_complete_[parameter]) return;
  is_complete_[parameter] = true;
  if (parameters_.list()[parameter].tensor.grad().defined()) has_gradient_[parameter] = true;
  std::size_t count = 1;
  round(parameter, count);
  for (std::size_t i = 0; i < merging_; ++i) {
    add_to_gradient(parameter, waiting_[waiting_.size() - 1 - i]);
    round(parameter, count *= 2);
  }
  if (exchange_ && is_last()) send_when_complete(parameter);
}

/// With ExchangeOptions::bfloat16, rounds the gradient of a parameter, which is a sum over `count`
/// micro-batches.
void GradientSum::round(std::size_t parameter, std::size_t count) const {
  if (!bfloat16_ || count == micro_batches_) return;
  const Tensor& tensor = parameters_.list()[parameter].tensor;
  if (!tensor.grad().defined()) return;
  dispatch(tensor.dtype(), [&]<class T>() {
    T* const values = reinterpret_cast<T*>(memory_of_gradient(tensor));
    kernels::parallel_ranges(tensor.size(), kernels::elements_per_piece,
                             [&](std::size_t begin, std::size_t end) {
                               for (std::size_t i = begin; i < end; ++i) {
                                 values[i] = rounded_to_bfloat16(values[i]);
                               }
                             });
  });
}

void GradientSum::send_when_complete(std::size_t parameter) {
  const Tensor& tensor = parameters_.list()[parameter].tensor;
  if (!tensor.grad().defined() && tensor.slot() != nullptr) {
    fill_with_minus_zero(memory_of_gradient(tensor), tensor.size(), tensor.dtype());
  }
  --missing_[buckets_[parameter]];
  for (; next_bucket_ < missing_.size() && missing_[next_bucket_] == 0; ++next_bucket_) {
    exchange_->send_bucket(gradients_);
  }
}

void GradientSum::add() {
  for (std::size_t i = 0; i < parameters_.list().size(); ++i) complete(i);
  TreeNode node{.first = next_, .count = 1};
  for (; merging_ > 0; --merging_) {
    node = {.first = waiting_.back().node.first, .count = 2 * node.count};
    waiting_.pop_back();
  }
  if (++next_ == own_.end) return;
  waiting_.push_back(stored(node));
  if (exchange_ && exchange_->sends_next(node)) {
    for (std::size_t i = 0; i < missing_.size(); ++i) {
      exchange_->send_bucket(waiting_.back().values);
    }
  }
  for (NamedTensor parameter : parameters_) parameter.tensor.zero_grad();
  begin_micro_batch();
}

/// A copy of the gradients of the parameters.
GradientSum::Sum GradientSum::stored(const TreeNode& node) const {
  Sum sum{.node = node, .values = kernels::Memory(layout_.bytes())};
  for (std::size_t i = 0; i < parameters_.list().size(); ++i) {
    const Tensor& tensor = parameters_.list()[i].tensor;
    const Tensor gradient = tensor.grad();
    std::byte* const to = sum.values.data() + layout_.offset(i);
    if (gradient.defined()) {
      dispatch(tensor.dtype(), [&]<class T>() {
        copy(gradient.values<T>().data(), tensor.size(), reinterpret_cast<T*>(to));
      });
    } else {
      fill_with_minus_zero(to, tensor.size(), tensor.dtype());
    }
    std::fill(to + tensor.size() * bytes_per_element(tensor.dtype()),
              sum.values.data() + layout_.end(i), std::byte{0});
  }
  return sum;
}

void GradientSum::add_to_gradient(std::size_t parameter, const Sum& sum) {
  const Tensor& tensor = parameters_.list()[parameter].tensor;
  if (tensor.slot() == nullptr) return;  // the parameter is frozen
  dispatch(tensor.dtype(), [&]<class T>() {
    const std::byte* const values = sum.values.data() + layout_.offset(parameter);
    add_to(tensor.slot()->target<T>(), reinterpret_cast<const T*>(values), tensor.size());
  });
}

void GradientSum::finish() {
  // Not cancelled here, since the other processes would keep waiting for this process.
  const kernels::UncancellableScope whole;
  if (exchange_) return sum_of_processes();
  for (std::size_t i = 0; i < parameters_.list().size(); ++i) {
    for (auto sum = waiting_.rbegin(); sum != waiting_.rend(); ++sum) add_to_gradient(i, *sum);
    if (!has_gradient_[i]) Tensor(parameters_.list()[i].tensor).zero_grad();
  }
  waiting_.clear();
}

/// Afterwards, a parameter has a gradient if it has a gradient in any process.
void GradientSum::sum_of_processes() {
  const auto found = group_.all_gather([&] {
    std::string own;
    for (const bool has_gradient : has_gradient_) own += has_gradient ? '+' : '-';
    return own;
  });
  std::vector<std::byte*> own;
  for (const Sum& sum : waiting_) own.push_back(sum.values.data());
  own.push_back(gradients_.data());
  exchange_->sum(own);
  for (std::size_t i = 0; i < parameters_.list().size(); ++i) {
    Tensor tensor = parameters_.list()[i].tensor;
    tensor.zero_grad();
    if (std::ranges::any_of(found, [&](const auto& of_process) { return of_process[i] == '+'; })) {
      memory_of_gradient(tensor);
    }
  }
}

void GradientSum::abandon() {
  if (!exchange_) return;
  const kernels::UncancellableScope whole;
  while (!exchange_->has_sent_all()) exchange_->send_bucket(gradients_);
  exchange_->complete();
}

}  // namespace tapestry
