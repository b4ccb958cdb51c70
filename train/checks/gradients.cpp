// SPDX-License-Identifier: BSD-3-Clause
#include "train/checks/gradients.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "autograd/ops/elementwise.h"
#include "autograd/random.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace {

/// Output weights (rows, labels per row, 1): 1 at labels, otherwise 0. Logits after the end of a
/// sentence are meaningless, and they depend on the embedding of padding, which has no gradient.
Tensor token_weights(const Batch& batch) {
  Tensor weights = Tensor::zeros({batch.rows, batch.target_length, 1}, DType::float64);
  const auto values = weights.mutable_values<double>();
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] != no_label) values[i] = 1.0;
  }
  return weights;
}

/// The outputs of a training step on one small batch, as a function of the parameters and of the
/// token vectors that encoder and decoder read.
class TrainingStep {
 public:
  TrainingStep(const Config& config, const Model& model, const Batch& batch)
      : network_(*model.network),
        parameters_(model.parameters.list()),
        input_(network_input(batch, DType::float64)),
        labels_(label_ids(batch)),
        token_weights_(token_weights(batch)),
        loss_{.ignored_id = no_label, .label_smoothing = config.train.label_smoothing},
        mode_(Mode::training(RandomStream(config.train.seed).named("dropout").at(1))
                  .with_deferred_averages()),
        offsets_(zeros_like(network_.embed(input_, Mode::inference()))) {}

  /// All parameters, and zero offsets added to the token vectors; the gradient of an offset equals
  /// the gradient of the token vectors.
  std::vector<NamedTensor> tensors() const {
    std::vector<NamedTensor> tensors = parameters_;
    if (offsets_.source.defined()) tensors.push_back({"source (token vectors)", offsets_.source});
    if (offsets_.target.defined()) tensors.push_back({"target (token vectors)", offsets_.target});
    return tensors;
  }

  std::vector<NamedTensor> outputs() const {
    TokenVectors vectors = network_.embed(input_, mode_);
    if (offsets_.source.defined()) vectors.source = vectors.source + offsets_.source;
    if (offsets_.target.defined()) vectors.target = vectors.target + offsets_.target;
    const Tensor features = network_.features(vectors, input_, mode_);
    const Tensor logits = network_.logits(features);
    return {{"loss", network_.loss(features, labels_, loss_).mean},
            {"logits", mul(logits, token_weights_)}};
  }

 private:
  static TokenVectors zeros_like(const TokenVectors& vectors) {
    const auto zeros = [](const Tensor& x) {
      return x.defined() ? Tensor::zeros(x.shape(), DType::float64).set_requires_grad(true)
                         : Tensor();
    };
    return {.source = zeros(vectors.source), .target = zeros(vectors.target)};
  }

  const Network& network_;
  std::vector<NamedTensor> parameters_;
  NetworkInput input_;
  Ids labels_;
  Tensor token_weights_;
  CrossEntropyOptions loss_;
  Mode mode_;
  TokenVectors offsets_;  // zeros added to the token vectors, see tensors()
};

using Json = nlohmann::ordered_json;  // writes non-finite values as null

Json optional_to_json(const std::optional<std::size_t>& index) {
  return index ? Json(*index) : Json(nullptr);
}

Json count_to_json(const GradcheckCount& count) {
  return {{"checked", count.checked}, {"inconclusive", count.inconclusive}};
}

Json row_to_json(const GradcheckRow& row) {
  return {{"output", row.output},
          {"name", row.name},
          {"shape", row.shape},
          {"verdict", name(row.verdict)},
          {"has_gradient", row.has_gradient},
          {"reached", row.has_gradient},  // deprecated: the former name of has_gradient
          {"zero", row.zero},
          {"gradient_norm", row.gradient_norm},
          {"least_norm", row.least_norm},
          {"worst_relative_error", row.worst_relative_error},
          {"worst_coordinate", optional_to_json(row.worst_coordinate)},
          {"analytic", row.analytic},
          {"numeric", row.numeric},
          {"cosine", row.cosine},
          {"factor", row.factor},
          {"coordinates", count_to_json(row.coordinates)},
          {"directions", count_to_json(row.directions)},
          {"inconclusive_coordinate", optional_to_json(row.inconclusive_coordinate)}};
}

Json fault_to_json(const std::optional<FaultyOperation>& found) {
  if (!found) return nullptr;
  Json wrong = Json::array();
  for (const auto& [input, row] : found->wrong_inputs) {
    wrong.push_back({{"input", input}, {"row", row_to_json(row)}});
  }
  return {{"operation", found->operation}, {"layer_path", found->layer_path},
          {"index", found->index},         {"recorded", found->recorded},
          {"inputs", found->inputs},       {"wrong_inputs", wrong}};
}

GradcheckVerdict overall_verdict(const GradcheckReport& report) {
  for (const auto verdict : {GradcheckVerdict::wrong, GradcheckVerdict::inconclusive}) {
    if (report.count(verdict) > 0) return verdict;
  }
  const bool all_small =
      !report.rows.empty() && report.count(GradcheckVerdict::too_small) == report.rows.size();
  return all_small ? GradcheckVerdict::too_small : GradcheckVerdict::agrees;
}

}  // namespace

void make_uneven(const Parameters& parameters) {
  for (NamedTensor parameter : parameters) {
    const RandomStream random = RandomStream(1).named("uneven " + parameter.name);
    std::uint64_t counter = 0;
    for (double& value : parameter.tensor.mutable_values<double>()) {
      value += 0.2 * random.uniform(counter++) - 0.1;
    }
  }
}

GradcheckReport check_gradients(const Config& config, const Model& model, const Batch& batch,
                                const GradcheckOptions& options) {
  const TrainingStep step(config, model, batch);
  return gradcheck_outputs([&] { return step.outputs(); }, step.tensors(), options);
}

std::string to_json(const GradcheckReport& report, const std::string& model) {
  Json rows = Json::array();
  for (const GradcheckRow& row : report.rows) rows.push_back(row_to_json(row));
  const Json json = {{"model", model},
                     {"verdict", name(overall_verdict(report))},
                     {"first_wrong", fault_to_json(report.first_wrong)},
                     {"rows", rows}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tapestry
