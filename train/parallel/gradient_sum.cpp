#include "train/parallel/gradient_sum.h"

#include <algorithm>
#include <span>
#include <utility>

#include "autograd/gradient.h"
#include "autograd/kernels/parallel.h"
#include "train/parallel/parameter_shards.h"

namespace tapestry {
namespace {

/// Stands for a parameter without a gradient in the list that processes exchange.
constexpr char absent = '-';

/// Calls f(parameter, index, offset), where `offset` is the number of values of the parameters
/// before it.
template <class F>
void for_each_parameter(Parameters& parameters, F&& f) {
  std::size_t index = 0, offset = 0;
  for (const NamedTensor& parameter : parameters) {
    f(parameter.tensor, index++, offset);
    offset += parameter.tensor.size();
  }
}

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

template <class T>
T* values_in(const kernels::Memory& memory) {
  return reinterpret_cast<T*>(memory.data());
}

/// Whether two neighbours are the children of a node of the tree.
bool are_siblings(const auto& left, const auto& right) {
  return left.count == right.count && left.first % (2 * left.count) == 0;
}

/// Calls f(first, count) for the nodes that GradientSum has after these micro-batches: the largest
/// ones that lie in the range.
template <class F>
void for_each_node(const MicroBatches& range, F&& f) {
  std::size_t count = 0;
  for (std::size_t first = range.begin; first < range.end; first += count) {
    for (count = 1; first % (2 * count) == 0 && first + 2 * count <= range.end;) count *= 2;
    f(first, count);
  }
}

/// Sums one part of the nodes of all processes, which come in the order of their micro-batches.
template <class T>
class PartSum {
 public:
  explicit PartSum(std::size_t size) : size_(size) {}

  void add(std::size_t first, std::size_t count, kernels::Memory values) {
    nodes_.push_back({.first = first, .count = count, .values = std::move(values)});
    while (nodes_.size() > 1 && are_siblings(nodes_[nodes_.size() - 2], nodes_.back()))
      merge_last();
  }

  kernels::Memory finish() {
    while (nodes_.size() > 1) merge_last();
    return std::move(nodes_.front().values);
  }

 private:
  struct Node {
    std::size_t first = 0, count = 0;
    kernels::Memory values{};
  };

  void merge_last() {
    const Node right = std::move(nodes_.back());
    nodes_.pop_back();
    add_to(kernels::Target<T>{values_in<T>(nodes_.back().values), true}, values_in<T>(right.values),
           size_);
    nodes_.back().count += right.count;
  }

  std::size_t size_;
  std::vector<Node> nodes_;
};

}  // namespace

GradientSum::GradientSum(Parameters& parameters, std::size_t micro_batches, ProcessGroup& group)
    : parameters_(parameters),
      micro_batches_(micro_batches),
      group_(group),
      own_(micro_batches_of(group.rank(), group.size(), micro_batches)),
      next_(own_.begin) {
  if (group.size() > 1) bounds_ = shard_bounds(parameters, group.size());
}

void GradientSum::add() {
  current_.first = next_++;
  current_.count = 1;
  while (!waiting_.empty() && are_siblings(waiting_.back(), current_)) {
    add_to_gradients(waiting_.back());
    current_.first = waiting_.back().first;
    current_.count *= 2;
    waiting_.pop_back();
  }
  if (next_ == own_.end) return;
  store(current_);
  waiting_.push_back(std::exchange(current_, {}));
  for (NamedTensor parameter : parameters_) parameter.tensor.clear_gradient();
}

void GradientSum::finish() {
  // A process that alone gave up a sum would keep the others waiting.
  const kernels::UncancellableScope whole;
  if (group_.size() == 1) {
    for (; !waiting_.empty(); waiting_.pop_back()) add_to_gradients(waiting_.back());
    return;
  }
  // A parameter may have a gradient in some processes alone.
  const std::vector<std::string> found = group_.all_gather([&] {
    store(current_);
    waiting_.push_back(std::exchange(current_, {}));
    std::string present(parameters_.list().size(), absent);
    for (const Node& node : waiting_) {
      for (std::size_t i = 0; i < present.size(); ++i) {
        if (node.present[i]) present[i] = '+';
      }
    }
    return present;
  });
  group_.transfer([&] {
    std::string present(parameters_.list().size(), absent);
    for (const std::string& each : found) {
      for (std::size_t i = 0; i < present.size(); ++i) {
        if (each[i] != absent) present[i] = each[i];
      }
    }
    set_gradients(dispatch(parameters_.dtype(), [&]<class T>() { return sum_part<T>(); }), present);
  });
}

/// Copies the gradients of the parameters. One that is absent becomes -0, since x + -0 is x for
/// every x.
void GradientSum::store(Node& node) {
  node.values = kernels::Memory(parameters_.num_values() * bytes_per_element(parameters_.dtype()));
  node.present.resize(parameters_.list().size());
  for_each_parameter(parameters_, [&](const Tensor& tensor, std::size_t index, std::size_t offset) {
    const Tensor gradient = tensor.gradient();
    node.present[index] = gradient.defined();
    dispatch(tensor.dtype(), [&]<class T>() {
      T* const to = values_in<T>(node.values) + offset;
      if (gradient.defined()) {
        copy(gradient.values<T>().data(), tensor.size(), to);
      } else {
        std::fill_n(to, tensor.size(), -T{0});
      }
    });
  });
}

void GradientSum::add_to_gradients(const Node& node) {
  for_each_parameter(parameters_, [&](const Tensor& tensor, std::size_t index, std::size_t offset) {
    if (!node.present[index]) return;
    dispatch(tensor.dtype(), [&]<class T>() {
      add_to(tensor.slot()->target<T>(), values_in<T>(node.values) + offset, tensor.size());
    });
  });
}

/// Sets the gradients of the shard of this process.
///
/// part  the values of the shard
void GradientSum::set_gradients(const kernels::Memory& part, const std::string& present) {
  const Part own = part_of(group_.rank());
  const std::vector<ElementRange> ranges = ranges_between(parameters_, own.begin, own.end);
  for_each_parameter(parameters_, [&](Tensor tensor, std::size_t index, std::size_t offset) {
    tensor.clear_gradient();
    if (present[index] == absent) return;
    dispatch(tensor.dtype(), [&]<class T>() {
      T* const gradient = tensor.slot()->target<T>().data;
      const ElementRange& range = ranges[index];
      if (range.size() == 0) return;
      copy(values_in<T>(part) + (offset + range.begin - own.begin), range.size(),
           gradient + range.begin);
    });
  });
}

/// Begins to receive the part of all nodes of all processes, those of each process in their order.
/// All transfers go on at the same time, and each process begins with another one, so that all
/// connections are in use; those of the own nodes are done.
template <class T>
std::vector<std::vector<GradientSum::Incoming>> GradientSum::start_to_receive(const Part& part) {
  std::vector<std::vector<Incoming>> nodes(group_.size());
  for (std::size_t distance = 0; distance < group_.size(); ++distance) {
    const std::size_t from = (group_.rank() + group_.size() - distance) % group_.size();
    const MicroBatches range = micro_batches_of(from, group_.size(), micro_batches_);
    for_each_node(range, [&](std::size_t first, std::size_t count) {
      Incoming node{
          .first = first, .count = count, .values = kernels::Memory(part.size() * sizeof(T))};
      const std::span<T> to(values_in<T>(node.values), part.size());
      if (distance == 0) {
        const Node& own = waiting_[nodes[from].size()];
        std::ranges::copy(std::span(values_in<T>(own.values) + part.begin, part.size()),
                          to.begin());
      } else {
        node.transfer = group_.start_receive(from, std::as_writable_bytes(to));
      }
      nodes[from].push_back(std::move(node));
    });
  }
  return nodes;
}

/// Sends the others their parts of the nodes of this process, and returns the sum of the part of
/// this process.
template <class T>
kernels::Memory GradientSum::sum_part() {
  std::vector<ProcessGroup::Transfer> sent;
  for (std::size_t distance = 1; distance < group_.size(); ++distance) {
    const std::size_t to = (group_.rank() + distance) % group_.size();
    const Part part = part_of(to);
    for (const Node& node : waiting_) {
      const std::span<const T> values(values_in<T>(node.values) + part.begin, part.size());
      sent.push_back(group_.start_send(to, std::as_bytes(values)));
    }
  }
  const Part part = part_of(group_.rank());
  PartSum<T> sum(part.size());
  std::vector<std::vector<Incoming>> received = start_to_receive<T>(part);
  for (std::size_t from = 0; from < group_.size(); ++from) {
    for (Incoming& node : received[from]) {
      group_.wait(node.transfer);
      sum.add(node.first, node.count, std::move(node.values));
    }
  }
  for (const ProcessGroup::Transfer& transfer : sent) group_.wait(transfer);
  return sum.finish();
}

std::size_t count_sums(const MicroBatches& micro_batches) {
  std::size_t sums = 0;
  for_each_node(micro_batches, [&](std::size_t, std::size_t) { ++sums; });
  return sums;
}

}  // namespace tapestry
