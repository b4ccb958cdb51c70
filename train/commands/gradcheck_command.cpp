#include <fmt/format.h>

#include "autograd/gradcheck.h"
#include "autograd/ops/add.h"
#include "autograd/ops/mul.h"
#include "train/batch_tensors.h"
#include "train/commands/commands.h"
#include "train/commands/gradcheck_json.h"
#include "train/commands/open_model.h"
#include "train/exit_code.h"
#include "train/refuse_option.h"

namespace tapestry {
namespace {

constexpr std::size_t sentences = 3;

/// (rows, labels a row, 1): 1 where something is predicted, else 0. What the model says behind the
/// end of a sentence means nothing, and the embedding of padding, which it depends on, has no
/// gradient.
Tensor token_weights(const Batch& batch) {
  Tensor weights = Tensor::zeros({batch.rows, batch.target_length, 1}, DType::float64);
  const auto values = weights.mutable_values<double>();
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] != no_label) values[i] = 1.0;
  }
  return weights;
}

/// Moves every value by up to 0.1. Initial values are too even to check by: where all weights of a
/// norm are 1 and all biases 0, a gradient that leaves them out is right.
void make_uneven(const Parameters& parameters) {
  for (NamedTensor parameter : parameters) {
    const RandomStream random = RandomStream(1).named("uneven " + parameter.name);
    std::uint64_t counter = 0;
    for (double& value : parameter.tensor.mutable_values<double>()) {
      value += 0.2 * random.uniform(counter++) - 0.1;
    }
  }
}

/// What a training step computes from one small batch, as a function of the parameters and of what
/// encoder and decoder read.
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
        random_(RandomStream(configured.config.train.seed).named("dropout").at(1)),
        offsets_(zeros_like(network_.embed(input_))) {}

  /// All parameters, and offsets of the token vectors: their gradients are those of the inputs.
  std::vector<NamedTensor> tensors() const {
    std::vector<NamedTensor> tensors = parameters_;
    if (offsets_.source) tensors.push_back({"source (token vectors)", offsets_.source});
    if (offsets_.target) tensors.push_back({"target (token vectors)", offsets_.target});
    return tensors;
  }

  std::vector<NamedTensor> outputs() const {
    TokenVectors vectors = network_.embed(input_, random_);
    if (offsets_.source) vectors.source = vectors.source + offsets_.source;
    if (offsets_.target) vectors.target = vectors.target + offsets_.target;
    const Tensor features = network_.features(vectors, input_, random_);
    const Tensor logits = network_.logits(features);
    return {{"loss", network_.loss(features, labels_, loss_)},
            {"logits", mul(logits, token_weights_)}};
  }

 private:
  static TokenVectors zeros_like(const TokenVectors& vectors) {
    const auto zeros = [](const Tensor& x) {
      return x ? Tensor::zeros(x.shape(), DType::float64).require_gradient() : Tensor();
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
  RandomStream random_;
  TokenVectors offsets_;  // of the token vectors: what these read has the gradient of these
};

}  // namespace

int gradcheck_command(const GradcheckArguments& arguments) {
  if (arguments.coordinates == 0 && arguments.directions == 0) {
    refuse_option("--coordinates 0 --directions 0", "nothing is left to compare",
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
    fmt::print("{}{}, float64, {} sentences\n{}", configured.origin.in_words(),
               configured.trained ? "" : " made uneven", sentences, to_string(report));
  }
  return static_cast<int>(report.count(GradcheckVerdict::wrong) == 0 ? ExitCode::done
                                                                     : ExitCode::check_failed);
}

}  // namespace tapestry
