// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/non_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/anomaly.h"
#include "autograd/kernels/parallel.h"
#include "autograd/tape.h"
#include "data/io/utf8.h"
#include "optim/optimizer.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

constexpr std::size_t max_named = 8;

class Search {
 public:
  Search(const BatchLoss& loss, const Examples& examples, const BatchRules& rules,
         Parameters& parameters)
      : loss_(loss), examples_(examples), rules_(rules), parameters_(parameters) {}

  /// The anomaly that AnomalyDetector finds in a batch; empty without an anomaly.
  std::string anomaly_in(const Batch& batch, std::size_t index) const {
    parameters_.zero_grad();
    AnomalyDetector detector;
    Tape tape(&detector);
    try {
      tape.backward(loss_(batch, index));
    } catch (const AnomalyError& error) {
      return error.what();
    }
    return "";
  }

  bool is_finite(const Batch& batch, std::size_t index) const {
    parameters_.zero_grad();
    Tape tape;
    const Tensor loss = loss_(batch, index);
    tape.backward(loss);
    return std::isfinite(loss.item()) && std::isfinite(global_gradient_norm(parameters_.list()));
  }

  std::vector<std::size_t> examples_at_fault(const Batch& batch, std::size_t index) const {
    std::vector<std::size_t> found;
    BatchRules rules = rules_;
    rules.epoch = batch.epoch;
    for (const std::size_t i : batch.examples) {
      if (!is_finite(make_batch(examples_, std::array{i}, rules), index)) found.push_back(i);
    }
    return found;
  }

 private:
  const BatchLoss& loss_;
  const Examples& examples_;
  BatchRules rules_;
  Parameters& parameters_;
};

/// The singular of a noun such as "images": "image".
std::string singular(const std::string& noun) { return noun.substr(0, noun.size() - 1); }

/// "training pairs 3, 17 and 20"
std::string name_examples(const std::vector<std::size_t>& examples, const std::string& noun) {
  const std::size_t count = examples.size();
  const std::size_t named = count <= max_named ? count : max_named - 1;
  std::string text = "training " + (count == 1 ? singular(noun) : noun);
  for (std::size_t i = 0; i < named; ++i) {
    const bool last = i > 0 && i + 1 == count;
    text += fmt::format("{} {}", i == 0 ? "" : last ? " and" : ",", examples[i] + 1);
  }
  if (named < count) text += fmt::format(" and {} more", count - named);
  return text;
}

/// The parts of an example that its task uses, one per line.
std::string describe(const Example& example, const Task& task, const TextCodec& codec) {
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<6}  {}\n", name, escaped(value));
  };
  const bool classes = task.layout().labels_are_classes;
  const bool pair = !classes && task.traits().reads_source;
  if (task.traits().reads_images) {
    const auto [low, high] = std::ranges::minmax(example.pixels);
    add("pixels", fmt::format("from {:.4g} to {:.4g}", low, high));
  } else if (classes || pair) {
    add(pair ? "source" : "text", codec.decode_source(example.source));
  }
  const char* target = pair ? "target" : !classes ? "text" : "labels";
  add(task.traits().one_label_per_example ? "label" : target, codec.decode_target(example.target));
  return text;
}

bool is_finite(const Tensor& tensor) {
  return dispatch(tensor.dtype(), [&]<class T>() {
    // Compilers vectorize the loop only without an early exit.
    int non_finite = 0;
    for (const T value : tensor.values<T>()) non_finite |= std::isfinite(value) ? 0 : 1;
    return non_finite == 0;
  });
}

}  // namespace

const char* non_finite_hint(std::uint64_t updates) {
  return updates == 0 ? "no parameter has been updated yet: correct the operation or the examples "
                        "that are named"
                      : smaller_steps_hint;
}

std::string value_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

NonFiniteOrigin find_non_finite_origin(const BatchLoss& loss, const Examples& examples,
                                       const BatchRules& rules, const std::vector<Batch>& batches,
                                       Parameters& parameters) {
  const Search search(loss, examples, rules, parameters);
  NonFiniteOrigin origin;
  for (std::size_t i = 0; i < batches.size() && origin.examples.empty(); ++i) {
    origin.operation = search.anomaly_in(batches[i], i);
    if (origin.operation.empty()) continue;
    origin.examples = search.examples_at_fault(batches[i], i);
    origin.by_themselves = !origin.examples.empty();
    if (!origin.by_themselves) origin.examples = batches[i].examples;
  }
  if (origin.examples.empty()) {
    for (const Batch& batch : batches) {
      origin.examples.insert(origin.examples.end(), batch.examples.begin(), batch.examples.end());
    }
  }
  std::ranges::sort(origin.examples);
  parameters.zero_grad();
  return origin;
}

std::string in_words(const NonFiniteOrigin& origin, const Config& config) {
  const std::string first = origin.operation.empty()
                                ? "\n  every operation is finite, the sum of gradients overflows"
                                : "\n  first in " + origin.operation;
  const std::string examples =
      name_examples(origin.examples, find_task(config).words(config).examples);
  if (!origin.by_themselves) return fmt::format("{}\n  in the batch of {}", first, examples);
  return first + (origin.examples.size() == 1
                      ? fmt::format("\n  caused only by {}", examples)
                      : fmt::format("\n  each of {} causes it by itself", examples));
}

std::string to_text(const NonFiniteOrigin& origin, const Examples& examples, const Config& config,
                    const TextCodec& codec) {
  const Task& task = find_task(config);
  const std::string noun = task.words(config).examples;
  std::string text = fmt::format(
      "{}\n{}\n",
      origin.operation.empty() ? "every operation is finite, the sum of gradients overflows"
                               : origin.operation,
      origin.by_themselves
          ? fmt::format("Each of these {} causes it by itself:", noun)
          : fmt::format("The batch has these {}; none of these causes it by itself:", noun));
  for (const std::size_t i : origin.examples) {
    text += fmt::format("training {} {}\n{}", singular(noun), i + 1,
                        describe(examples[i], task, codec));
  }
  return text;
}

std::optional<std::string> find_non_finite_state(const Parameters& parameters,
                                                 const Optimizer& optimizer, ProcessGroup& group) {
  std::vector<NamedTensor> all = parameters.list();
  all.insert(all.end(), parameters.buffers().begin(), parameters.buffers().end());
  for (const NamedTensor& each : optimizer.state()) {
    all.push_back({"optimizer/" + each.name, each.tensor});
  }
  const auto found = group.all_gather([&] {
    std::vector<char> finite(all.size());
    const kernels::UncancellableScope whole_check;  // a signal must not end a save
    kernels::parallel_for(all.size(), [&](std::size_t i) { finite[i] = is_finite(all[i].tensor); });
    return std::to_string(std::ranges::find(finite, char{0}) - finite.begin());
  });
  std::size_t first = all.size();
  for (const std::string& of_process : found) first = std::min(first, std::stoul(of_process));
  if (first == all.size()) return std::nullopt;
  return all[first].name + " has a value that is not finite";
}

}  // namespace tapestry
