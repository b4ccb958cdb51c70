#include "train/cli/gradcheck.h"

#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "autograd/gradcheck/gradcheck.h"
#include "autograd/kernels/parallel.h"
#include "autograd/ops/elementwise.h"
#include "train/cli/command.h"
#include "train/cli/open_model.h"
#include "train/config/error.h"
#include "train/error.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace gradcheck_cli {
namespace {

struct Arguments {
  std::string model;                   ///< a config file, run directory or checkpoint
  std::vector<std::string> overrides;  ///< section.key=value; for a run, only data files
  std::size_t coordinates = 8;  ///< coordinates checked per tensor; larger tensors are sampled
  std::size_t directions = 3;   ///< random directions per tensor
  std::uint64_t seed = 1;       ///< seed of the sample, directions and output weights
  bool json = false;
  std::size_t threads = 0;
};

constexpr std::size_t sentences = 3;

/// Output weights (rows, labels per row, 1): 1 where there is a label, else 0. Logits after the end
/// of a sentence are meaningless, and they depend on the embedding of padding, which has no
/// gradient.
Tensor token_weights(const Batch& batch) {
  Tensor weights = Tensor::zeros({batch.rows, batch.target_length, 1}, DType::float64);
  const auto values = weights.mutable_values<double>();
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] != no_label) values[i] = 1.0;
  }
  return weights;
}

/// Adds a random offset of at most 0.1 to every value. Initial values would hide errors: where all
/// weights of a norm are 1 and all biases 0, a gradient that omits them is still correct.
void make_uneven(const Parameters& parameters) {
  for (NamedTensor parameter : parameters) {
    const RandomStream random = RandomStream(1).named("uneven " + parameter.name);
    std::uint64_t counter = 0;
    for (double& value : parameter.tensor.mutable_values<double>()) {
      value += 0.2 * random.uniform(counter++) - 0.1;
    }
  }
}

/// The outputs of a training step on one small batch, as a function of the parameters and of the
/// token vectors that encoder and decoder read.
class TrainingStep {
 public:
  explicit TrainingStep(const ConfiguredModel& configured)
      : network_(*configured.model->network),
        parameters_(configured.model->parameters.list()),
        batch_(configured.first_batch(sentences)),
        input_(network_input(batch_, DType::float64)),
        labels_(label_ids(batch_)),
        token_weights_(token_weights(batch_)),
        loss_{.ignored_id = no_label, .label_smoothing = configured.config.train.label_smoothing},
        mode_(Mode::training(RandomStream(configured.config.train.seed).named("dropout").at(1))
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
      return x.defined() ? Tensor::zeros(x.shape(), DType::float64).require_gradient() : Tensor();
    };
    return {.source = zeros(vectors.source), .target = zeros(vectors.target)};
  }

  const Network& network_;
  std::vector<NamedTensor> parameters_;
  Batch batch_;
  NetworkInput input_;
  Ids labels_;
  Tensor token_weights_;
  CrossEntropyOptions loss_;
  Mode mode_;
  TokenVectors offsets_;  // added to the token vectors; their gradients are the gradients of the
                          // token vectors
};

using Json = nlohmann::ordered_json;  // writes values that are not finite as null

Json shape_to_json(const Shape& shape) {
  Json extents = Json::array();
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) extents.push_back(shape[axis]);
  return extents;
}

Json optional_to_json(const std::optional<std::size_t>& index) {
  return index ? Json(*index) : Json(nullptr);
}

Json count_to_json(const GradcheckCount& count) {
  return {{"checked", count.checked}, {"inconclusive", count.inconclusive}};
}

Json row_to_json(const GradcheckRow& row) {
  return {{"output", row.output},
          {"name", row.name},
          {"shape", shape_to_json(row.shape)},
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
  Json inputs = Json::array();
  for (const Shape& shape : found->inputs) inputs.push_back(shape_to_json(shape));
  Json wrong = Json::array();
  for (const auto& [input, row] : found->wrong_inputs) {
    wrong.push_back({{"input", input}, {"row", row_to_json(row)}});
  }
  return {{"operation", found->operation},
          {"layer_path", found->layer_path},
          {"index", found->index},
          {"recorded", found->recorded},
          {"inputs", inputs},
          {"wrong_inputs", wrong}};
}

GradcheckVerdict overall_verdict(const GradcheckReport& report) {
  for (const auto verdict : {GradcheckVerdict::wrong, GradcheckVerdict::inconclusive}) {
    if (report.count(verdict) > 0) return verdict;
  }
  const bool all_small =
      !report.rows.empty() && report.count(GradcheckVerdict::too_small) == report.rows.size();
  return all_small ? GradcheckVerdict::too_small : GradcheckVerdict::agrees;
}

int run(const Arguments& arguments) {
  set_num_threads(arguments.threads);
  if (arguments.coordinates == 0 && arguments.directions == 0) {
    reject_option("--coordinates 0 --directions 0", "nothing is left to compare",
                  "give one of them 1 or more");
  }
  const ConfiguredModel configured = open_model(arguments.model, arguments.overrides);
  if (!configured.trained) make_uneven(configured.model->parameters);
  const TrainingStep step(configured);
  const GradcheckReport report = gradcheck_outputs([&] { return step.outputs(); }, step.tensors(),
                                                   {.directions = arguments.directions,
                                                    .max_coordinates = arguments.coordinates,
                                                    .seed = arguments.seed});
  if (arguments.json) {
    fmt::print("{}\n", to_json(report, configured.origin.place));
  } else {
    fmt::print("{}{}, float64, {} examples\n{}", configured.origin.in_words(),
               configured.trained ? "" : " with random offsets", sentences, to_string(report));
  }
  return static_cast<int>(report.passed() ? ExitCode::done : ExitCode::check_failed);
}

Action define(CLI::App& command) {
  const auto arguments = std::make_shared<Arguments>();
  add_model(command, arguments->model);
  add_overrides(command, arguments->overrides);
  command
      .add_option("--coordinates", arguments->coordinates,
                  "Coordinates to move of each tensor; larger ones are sampled")
      ->check(within(between(0, 1'000'000'000)))
      ->capture_default_str();
  command
      .add_option("--directions", arguments->directions,
                  "Random directions in which to move each tensor as a whole")
      ->check(within(between(0, 1000)))
      ->capture_default_str();
  command
      .add_option("--seed", arguments->seed,
                  "Random seed for coordinates, directions and output weights")
      ->check(within(at_least(0)))
      ->capture_default_str();
  command.add_flag("--json", arguments->json, "Print one JSON object");
  add_threads(command, arguments->threads);
  command.footer(
      "Examples:\n  tapestry gradcheck configs/copy.yaml\n"
      "  tapestry gradcheck configs/copy.yaml model.d_model=16 --coordinates 0");
  return [arguments] { return run(*arguments); };
}

}  // namespace
}  // namespace gradcheck_cli

std::string to_json(const GradcheckReport& report, const std::string& model) {
  using gradcheck_cli::Json;
  Json rows = Json::array();
  for (const GradcheckRow& row : report.rows) rows.push_back(gradcheck_cli::row_to_json(row));
  const Json json = {{"model", model},
                     {"verdict", name(gradcheck_cli::overall_verdict(report))},
                     {"first_wrong", gradcheck_cli::fault_to_json(report.first_wrong)},
                     {"rows", rows}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

const Command gradcheck_command{
    .name = "gradcheck",
    .purpose = "Compare all gradients of a configured model with central differences",
    .define = gradcheck_cli::define,
    .memory_hint = smaller_model_hint};

}  // namespace tapestry
