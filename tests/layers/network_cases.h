// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "autograd/tape.h"
#include "layers/encoder_models.h"
#include "layers/transformer.h"
#include "tests/layers/transformer_cases.h"
#include "tests/support/gradients.h"
#include "tests/support/model_kind.h"
#include "tests/support/parameters.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

/// Helpers for tests of all kinds of networks.
namespace tapestry::test {

inline constexpr std::size_t classes = 3;
inline constexpr ImageShape image_shape{.height = 4, .width = 4, .channels = 2};

inline KindOptions with_kind(const TransformerOptions& options, ModelKind kind) {
  return {options, kind};
}

/// A network over 11 words, or 3 classes and images of 4 x 4 pixels in 2 channels.
inline std::unique_ptr<Network> make_network(const Scope& scope, const KindOptions& options) {
  switch (options.kind) {
    case ModelKind::seq2seq:
      return std::make_unique<Transformer>(scope, options, vocabulary, vocabulary, padding_id);
    case ModelKind::language_model:
      return std::make_unique<LanguageModel>(scope, options, vocabulary, padding_id);
    case ModelKind::masked_language_model:
      return std::make_unique<MaskedLanguageModel>(scope, options, vocabulary, padding_id);
    case ModelKind::classifier:
      return std::make_unique<Classifier>(scope, options, vocabulary, classes, padding_id);
    case ModelKind::tagger:
      return std::make_unique<Tagger>(scope, options, vocabulary, classes, padding_id);
    case ModelKind::vision_transformer:
      break;
  }
  return std::make_unique<VisionTransformer>(scope, options, image_shape, classes);
}

struct MadeNetwork {
  explicit MadeNetwork(const KindOptions& options, DType dtype = DType::float64)
      : parameters(dtype, 1), network(make_network(Scope(parameters), options)) {}

  Parameters parameters;
  std::unique_ptr<Network> network;
};

/// Two sentences; the second is padded. No token has the padding id, because the embedding
/// of this id has no gradient.
inline const TokenBatch sentences{.ids = {{5, 6, 7, 8}, {9, 4, 3, 10}}, .lengths = {4, 2}};

/// A batch for networks of every kind.
inline NetworkInput network_input() {
  return {.source = sentences,
          .target = sentences,
          .images = random_leaf({2, image_shape.values()}, 3).detach().to(DType::float64)};
}

/// Labels of network_input(): one for each token, or one for each row.
inline Ids labels_for(ModelKind kind) {
  switch (kind) {
    case ModelKind::seq2seq:
    case ModelKind::language_model:
    case ModelKind::masked_language_model:
      return {{6, 7, 8, 3}, {4, 3, 1, 2}};
    case ModelKind::tagger:
      return {{1, 2, 0, 2}, {1, 1, 0, 2}};
    case ModelKind::classifier:
    case ModelKind::vision_transformer:
      break;
  }
  return {{2}, {0}};
}

/// Names and shapes of all parameters except the parameters of `stack`.
inline std::vector<std::string> outside(const char* stack, const Parameters& parameters) {
  std::vector<std::string> names;
  for (const std::string& line : listing(parameters)) {
    if (!line.starts_with(stack)) names.push_back(line);
  }
  return names;
}

/// The scores of position t in row r.
inline std::vector<double> scores_at(const Tensor& logits, std::size_t r, std::size_t t) {
  const std::size_t n = logits.shape()[2];
  const auto all = values_of(logits);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>((r * logits.shape()[1] + t) * n);
  return {begin, begin + static_cast<std::ptrdiff_t>(n)};
}

/// The loss of a batch and the gradients of all parameters.
inline std::vector<std::vector<double>> step(MadeNetwork& made, const NetworkInput& input,
                                             const Ids& labels) {
  made.parameters.zero_grad();
  Tape tape;
  const Network& network = *made.network;
  const Mode mode = Mode::training(RandomStream(4));
  const Tensor loss =
      network.loss(network.features(network.embed(input, mode), input, mode), labels, {}).mean;
  tape.backward(loss);
  std::vector<std::vector<double>> all{values_of(loss)};
  for (const NamedTensor& p : made.parameters) all.push_back(values_of(p.tensor.grad()));
  return all;
}

}  // namespace tapestry::test
