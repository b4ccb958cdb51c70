#include "train/non_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/anomaly.h"
#include "autograd/tape.h"
#include "optim/clip.h"

namespace tapestry {
namespace {

constexpr std::size_t most_named_pairs = 8;

class Search {
 public:
  Search(const BatchLoss& loss, const std::vector<Example>& pairs, const BatchRules& rules,
         Parameters& parameters)
      : loss_(loss), pairs_(pairs), rules_(rules), parameters_(parameters) {}

  /// The anomaly that AnomalyDetector finds in a batch; empty if none.
  std::string anomaly_in(const Batch& batch, std::size_t index) const {
    parameters_.clear_gradients();
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
    parameters_.clear_gradients();
    Tape tape;
    const Tensor loss = loss_(batch, index);
    tape.backward(loss);
    return std::isfinite(loss.item()) && std::isfinite(global_gradient_norm(parameters_.list()));
  }

  std::vector<std::size_t> pairs_at_fault(const Batch& batch, std::size_t index) const {
    std::vector<std::size_t> found;
    for (const std::size_t pair : batch.examples) {
      if (!is_finite(make_batch(pairs_, std::array{pair}, rules_), index)) found.push_back(pair);
    }
    return found;
  }

 private:
  const BatchLoss& loss_;
  const std::vector<Example>& pairs_;
  BatchRules rules_;
  Parameters& parameters_;
};

/// "training pairs 3, 17 and 20"
std::string name_pairs(const std::vector<std::size_t>& pairs) {
  const std::size_t count = pairs.size();
  const std::size_t named = count <= most_named_pairs ? count : most_named_pairs - 1;
  std::string text = count == 1 ? "training pair" : "training pairs";
  for (std::size_t i = 0; i < named; ++i) {
    const bool last = i > 0 && i + 1 == count;
    text += fmt::format("{} {}", i == 0 ? "" : last ? " and" : ",", pairs[i] + 1);
  }
  if (named < count) text += fmt::format(" and {} more", count - named);
  return text;
}

bool is_finite(const Tensor& tensor) {
  return dispatch(tensor.dtype(), [&]<class T>() {
    return std::ranges::all_of(tensor.values<T>(), [](T value) { return std::isfinite(value); });
  });
}

}  // namespace

NonFiniteOrigin find_non_finite_origin(const BatchLoss& loss, const std::vector<Example>& pairs,
                                       const BatchRules& rules, const std::vector<Batch>& batches,
                                       Parameters& parameters) {
  const Search search(loss, pairs, rules, parameters);
  NonFiniteOrigin origin;
  for (std::size_t i = 0; i < batches.size() && origin.pairs.empty(); ++i) {
    origin.operation = search.anomaly_in(batches[i], i);
    if (origin.operation.empty()) continue;
    origin.pairs = search.pairs_at_fault(batches[i], i);
    origin.by_themselves = !origin.pairs.empty();
    if (!origin.by_themselves) origin.pairs = batches[i].examples;
  }
  if (origin.pairs.empty()) {
    for (const Batch& batch : batches) {
      origin.pairs.insert(origin.pairs.end(), batch.examples.begin(), batch.examples.end());
    }
  }
  std::ranges::sort(origin.pairs);
  parameters.clear_gradients();
  return origin;
}

std::string in_words(const NonFiniteOrigin& origin) {
  const std::string first = origin.operation.empty()
                                ? "; every operation is finite, the sum of gradients overflows"
                                : "; first in " + origin.operation;
  const std::string pairs = name_pairs(origin.pairs);
  return first + (origin.by_themselves ? fmt::format("; caused by {} alone", pairs)
                                       : fmt::format("; in the batch of {}", pairs));
}

std::string to_text(const NonFiniteOrigin& origin, const std::vector<Example>& pairs,
                    const TextCodec& codec) {
  std::string text = fmt::format(
      "{}\n{}\n", origin.operation.empty() ? "no operation by itself" : origin.operation,
      origin.by_themselves ? "These sentences give it by themselves:"
                           : "These sentences are its batch; none gives it by itself:");
  for (const std::size_t i : origin.pairs) {
    text += fmt::format("training pair {}\n  source  {}\n  target  {}\n", i + 1,
                        codec.decode_source(pairs[i].source), codec.decode_target(pairs[i].target));
  }
  return text;
}

std::optional<std::string> find_non_finite_state(const Parameters& parameters,
                                                 const Optimizer& optimizer) {
  const auto found = [](const std::string& name) {
    return name + " has a value that is not finite";
  };
  for (const NamedTensor& parameter : parameters) {
    if (!is_finite(parameter.tensor)) return found(parameter.name);
  }
  for (const NamedTensor& buffer : parameters.buffers()) {
    if (!is_finite(buffer.tensor)) return found(buffer.name);
  }
  for (const NamedTensor& tensor : optimizer.state()) {
    if (!is_finite(tensor.tensor)) return found("optimizer/" + tensor.name);
  }
  return std::nullopt;
}

}  // namespace tapestry
