#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "autograd/ops/losses.h"
#include "autograd/tape.h"
#include "layers/model.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"
#include "tests/train/wiring/model_kinds.h"
#include "tests/train/wiring/model_reference.h"

/// What models compute of wiring_input(), and the same of their reference.
namespace tapestry::test {

struct Results {
  std::vector<double> logits;  ///< of the places that have a label
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;

  bool operator==(const Results&) const = default;
};

inline Model model_of(const KindOptions& options) {
  return {network_maker(options, sizes_of(options)), DType::float64, 1};
}

/// A model in which no bias is 0, no gain 1 and no running moment as it began; large variances keep
/// a batch norm in inference from letting its values grow from layer to layer.
inline Model perturbed_model(const KindOptions& options) {
  Model model = model_of(options);
  perturb(model.parameters);
  for (NamedTensor buffer : model.parameters.buffers()) {
    const RandomStream random = RandomStream(8).named(buffer.name);
    std::uint64_t counter = 0;
    for (double& value : buffer.tensor.mutable_values<double>()) {
      const double u = random.uniform(counter++);
      value += buffer.name.ends_with("running_var") ? 30 * u : u - 0.5;
    }
  }
  return model;
}

inline CrossEntropyOptions loss_options() {
  return {.ignored_id = ignored_label, .label_smoothing = 0.1};
}

inline std::vector<double> labelled(const Tensor& logits, const Ids& labels) {
  const std::vector<double> all = values_of(logits);
  const std::size_t n = logits.shape().back();
  std::vector<double> kept;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels.data()[i] == ignored_label) continue;
    for (std::size_t j = 0; j < n; ++j) kept.push_back(all[i * n + j]);
  }
  return kept;
}

/// Takes the gradients out of the parameters.
inline std::map<std::string, std::vector<double>> taken_gradients(Parameters& parameters) {
  std::map<std::string, std::vector<double>> gradients;
  for (NamedTensor p : parameters) {
    const Tensor gradient = p.tensor.gradient();
    gradients[p.name] =
        gradient.defined() ? values_of(gradient) : std::vector<double>(p.tensor.size(), 0.0);
    p.tensor.clear_gradient();
  }
  return gradients;
}

/// Forward and backward; running averages are deferred.
inline Results results_of(Model& model, ModelKind kind, const Mode& mode) {
  const NetworkInput input = wiring_input();
  const Ids labels = wiring_labels(kind);
  const Network& network = *model.network;
  Results results;
  Tape tape;
  const Mode deferred = mode.with_deferred_averages();
  const Tensor features = network.features(network.embed(input, deferred), input, deferred);
  results.logits = labelled(network.logits(features), labels);
  const Tensor loss = network.loss(features, labels, loss_options()).mean;
  results.loss = loss.item();
  tape.backward(loss);
  results.gradients = taken_gradients(model.parameters);
  return results;
}

inline Results results_of(Reference& reference, Model& model, ModelKind kind) {
  const Ids labels = wiring_labels(kind);
  Results results;
  Tape tape;
  const Tensor logits = reference.logits(wiring_input());
  results.logits = labelled(logits, labels);
  const Tensor loss = cross_entropy(logits, labels, loss_options()).mean;
  results.loss = loss.item();
  tape.backward(loss);
  results.gradients = taken_gradients(model.parameters);
  return results;
}

/// The largest difference of two lists, beside the largest of their values where that is more than
/// 1; infinite if one is longer.
inline double difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0, largest = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    worst = d <= worst ? worst : d;  // NaN stays
    largest = std::max(largest, std::abs(b[i]));
  }
  return worst / largest;
}

inline void check_close(const Results& found, const Results& expected) {
  constexpr double rounding = 1e-9;
  CHECK(difference(found.logits, expected.logits) < rounding);
  CHECK(difference({found.loss}, {expected.loss}) < rounding);
  REQUIRE(found.gradients.size() == expected.gradients.size());
  for (const auto& gradient : expected.gradients) {
    CAPTURE(gradient.first);
    CHECK(difference(found.gradients.at(gradient.first), gradient.second) < rounding);
  }
}

/// Checks inference, training without anything that is mode, and what training leaves in the
/// running averages of batch norms.
inline void check_against_reference(const KindOptions& options) {
  Model model = perturbed_model(options);
  Reference inference(model.parameters, options, false);
  check_close(results_of(model, options.kind, Mode::inference()),
              results_of(inference, model, options.kind));

  model.parameters.discard_pending();
  Reference training(model.parameters, options, true);
  const Results trained = results_of(model, options.kind, Mode::training(RandomStream(3)));
  check_close(trained, results_of(training, model, options.kind));

  std::map<std::string, std::vector<double>> before;
  for (const NamedTensor& b : model.parameters.buffers()) before[b.name] = values_of(b.tensor);
  model.parameters.commit_buffers();
  for (const NamedTensor& buffer : model.parameters.buffers()) {
    CAPTURE(buffer.name);
    const std::size_t dot = buffer.name.rfind('.');
    const auto& seen = training.moments().at(buffer.name.substr(0, dot));
    std::vector<double> expected =
        buffer.name.ends_with("mean") ? seen.mean : seen.unbiased_variance;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = 0.9 * before[buffer.name][i] + 0.1 * expected[i];
    }
    CHECK(difference(values_of(buffer.tensor), expected) < 1e-12);
  }
}

}  // namespace tapestry::test
