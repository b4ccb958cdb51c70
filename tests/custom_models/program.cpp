// SPDX-License-Identifier: BSD-3-Clause
// A user's program for check.sh, with a custom model for each built-in kind, and with faulty
// models.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry.h"
#include "tapestry/program.h"
#include "tapestry/train/tasks/task.h"

namespace {

using namespace tapestry;

/// Predicts each label from the target token at its position, and from the sum of the source tokens
/// or from the pixels if there are any.
class Counts : public Network {
 public:
  Counts(const Scope& scope, const Config& config, const NetworkSizes& sizes)
      : output_(scope / "output", config.model.d_model, sizes.target) {
    const std::string& kind = config.model_kind;
    const std::size_t width = config.model.d_model;
    if (kind == "my_vision_transformer") {
      image_.emplace(scope / "image", sizes.image.values(), width);
    } else if (kind == "my_tagger") {  // its target tokens are words of the source vocabulary
      target_.emplace(scope / "target", sizes.source, width);
    } else {
      const bool reads_source = kind == "my_classifier" || kind == "my_seq2seq";
      if (reads_source) source_.emplace(scope / "source", sizes.source, width);
      if (kind != "my_classifier") target_.emplace(scope / "target", sizes.target, width);
    }
  }

  TokenVectors embed(const NetworkInput& input, const Mode&) const override {
    if (image_) {
      return {.source = reshape((*image_)(input.images), {input.images.shape()[0], 1, inferred})};
    }
    return {.source = source_ ? (*source_)(input.source.ids) : Tensor(),
            .target = target_ ? (*target_)(input.target.ids) : Tensor()};
  }
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode&) const override {
    if (image_) return vectors.source;
    if (!vectors.source.defined()) return vectors.target;
    const Tensor summed = sum(vectors.source * tokens(input.source, vectors.source), {1}, true);
    return vectors.target.defined() ? vectors.target + summed : summed;
  }
  Tensor logits(const Tensor& features) const override { return output_(features); }
  bool causal() const override { return true; }

 private:
  /// (rows, length, 1): 1 for tokens, 0 for padding.
  static Tensor tokens(const TokenBatch& batch, const Tensor& vectors) {
    const std::size_t rows = vectors.shape()[0], length = vectors.shape()[1];
    std::vector<double> mask(rows * length, 0.0);
    for (std::size_t row = 0; row < rows; ++row) {
      std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(row * length), batch.lengths[row],
                  1.0);
    }
    return Tensor::from(Shape{rows, length, 1}, mask, vectors.dtype());
  }

  std::optional<Linear> image_{};
  std::optional<Embedding> source_{}, target_{};
  Linear output_;
};

/// Predicts each label from the target tokens up to its position and the source tokens, by two
/// layers of attention.
class Attentive : public Network {
 public:
  Attentive(const Scope& scope, const Config& config, const NetworkSizes& sizes)
      : masks_padding_(config.custom_value<bool>("model.masks_padding")),
        source_(scope / "source", sizes.source, config.model.d_model),
        target_(scope / "target", sizes.target, config.model.d_model),
        self_(scope / "self", config.model.d_model, {.num_heads = config.model.num_heads}),
        cross_(scope / "cross", config.model.d_model, {.num_heads = config.model.num_heads}),
        output_(scope / "output", config.model.d_model, sizes.target) {}

  TokenVectors embed(const NetworkInput& input, const Mode&) const override {
    return {.source = source_(input.source.ids), .target = target_(input.target.ids)};
  }
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode) const override {
    const AttentionMask source =
        masks_padding_ ? AttentionMask::padding(input.source.lengths) : AttentionMask();
    const AttentionMask target =
        AttentionMask::causal() & AttentionMask::padding(input.target.lengths);
    const Tensor x = vectors.target + self_(vectors.target, vectors.target, target, mode);
    return x + cross_(x, vectors.source, source, mode);
  }
  Tensor logits(const Tensor& features) const override { return output_(features); }
  bool causal() const override { return true; }

 private:
  bool masks_padding_;
  Embedding source_, target_;
  MultiHeadAttention self_, cross_;
  Linear output_;
};

/// A language model with one of several mistakes.
class Wrong : public Network {
 public:
  Wrong(const Scope& scope, const Config& config, const NetworkSizes& sizes)
      : mistake_(config.custom_value<std::string>("model.mistake")),
        embedding_(scope / "embedding", sizes.target, config.model.d_model),
        hidden_(scope / "hidden", config.model.d_model, 7),
        output_(scope / "output", config.model.d_model,
                sizes.target + (mistake_ == "wide_logits" ? 1 : 0)) {
    if (mistake_ == "constructor") throw std::runtime_error("no such file");
    if (mistake_ == "key") (void)config.custom_value<bool>("model.mask_padding");
  }

  TokenVectors embed(const NetworkInput& input, const Mode&) const override {
    return {.target = embedding_(mistake_ == "reads_source" ? input.source.ids : input.target.ids)};
  }
  Tensor features(const TokenVectors& vectors, const NetworkInput&, const Mode&) const override {
    if (mistake_ == "shape") return hidden_(hidden_(vectors.target));
    if (mistake_ == "dtype") {
      const bool narrow = vectors.target.dtype() == DType::float32;
      return vectors.target.to(narrow ? DType::float64 : DType::float32);
    }
    if (mistake_ == "number") throw 42;
    return vectors.target;
  }
  Tensor logits(const Tensor& features) const override { return output_(features); }
  Loss loss(const Tensor& features, const Ids& labels,
            const CrossEntropyOptions& options) const override {
    if (mistake_ != "loss") return Network::loss(features, labels, options);
    Loss loss = Network::loss(features, labels, {.ignored_id = options.ignored_id});
    loss.mean = scale(loss.mean, 7.0);
    return loss;
  }
  bool causal() const override { return true; }

 private:
  std::string mistake_;
  Embedding embedding_;
  Linear hidden_, output_;
};

/// A language model whose logits are finite only at the parameter values of its first call, so that
/// finite differences cannot be computed.
class Isolated : public Network {
 public:
  Isolated(const Scope& scope, const Config& config, const NetworkSizes& sizes)
      : embedding_(scope / "embedding", sizes.target, config.model.d_model),
        output_(scope / "output", config.model.d_model, sizes.target) {}

  TokenVectors embed(const NetworkInput& input, const Mode&) const override {
    return {.target = embedding_(input.target.ids)};
  }
  Tensor features(const TokenVectors& vectors, const NetworkInput&, const Mode&) const override {
    return vectors.target;
  }
  Tensor logits(const Tensor& features) const override {
    const Tensor y = output_(features);
    const std::vector<double> values = y.to_vector();
    if (first_.size() != values.size()) first_ = values;
    if (values == first_) return y;
    return y * Tensor::full(y.shape(), std::numeric_limits<double>::quiet_NaN(), y.dtype());
  }
  bool causal() const override { return true; }

 private:
  Embedding embedding_;
  Linear output_;
  mutable std::vector<double> first_{};
};

/// Predicts a class from the mean of the token vectors.
class MeanOfBits : public Network {
 public:
  MeanOfBits(const Scope& scope, const Config& config, const NetworkSizes& sizes)
      : embedding_(scope / "embedding", sizes.source, config.model.d_model),
        output_(scope / "output", config.model.d_model,
                sizes.target + config.custom_value<std::size_t>("model.more_logits")) {}

  TokenVectors embed(const NetworkInput& input, const Mode&) const override {
    return {.source = embedding_(input.source.ids)};
  }
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode&) const override {
    return pool(PoolingKind::mean, vectors.source, input.source.lengths);
  }
  Tensor logits(const Tensor& features) const override { return output_(features); }
  bool causal() const override { return false; }

 private:
  Embedding embedding_;
  Linear output_;
};

std::vector<Example> bits(std::size_t n, const RandomStream& random) {
  std::vector<Example> examples(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Ids drawn = random_ids({2 * (i % 3) + 1}, random.at(i), 0, 2);
    std::size_t ones = 0;
    for (const std::int32_t bit : drawn) {
      examples[i].source.push_back(first_word_id + bit);
      ones += bit == 1 ? 1 : 0;
    }
    examples[i].target = {first_word_id + (2 * ones > drawn.size() ? 1 : 0)};
  }
  return examples;
}

Corpus load_bits(const DataOptions& options, const FixedVocabularies*) {
  if (options.generated.seed == 666) throw std::runtime_error("no more bits");
  const RandomStream random(options.generated.seed);
  Corpus corpus{};
  corpus.train = bits(options.generated.train_size, random.named("train"));
  corpus.validation = bits(options.generated.validation_size, random.named("validation"));
  corpus.test = bits(options.generated.test_size, random.named("test"));
  corpus.source_vocabulary = Vocabulary(Tokens{"0", "1"});
  corpus.target_vocabulary = Vocabulary(Tokens{"zeros", "ones"});
  return corpus;
}

/// A task with custom data: whether a sequence has more ones than zeros.
class Majority : public Task {
 public:
  const ConfigKind& kind() const override { return kind_; }
  std::vector<const DataSource*> sources() const override { return {&source_}; }
  TaskWords words(const Config&) const override { return {.examples = "sequences"}; }
  std::string describe_vocabularies(const Corpus&) const override { return "two classes"; }
  const RowLayout& layout() const override { return class_rows; }
  TaskTraits traits() const override {
    return {.reads_source = true, .one_label_per_example = true};
  }
  std::unique_ptr<Network> make_network(const Scope& scope, const Config& config,
                                        const NetworkSizes& sizes) const override {
    return std::make_unique<MeanOfBits>(scope, config, sizes);
  }

 private:
  ConfigKind kind_{.name = "mean_of_bits",
                   .custom_keys = {CustomKey("model.more_logits", 0, at_least(0), "a mistake")},
                   .model_keys = {{"model.kind", "model.d_model", "model.max_length"}}};
  DataSource source_{
      .kind = {.name = "majority",
               .keys = {"data.seed", "data.train_size", "data.validation_size", "data.test_size"}},
      .load = load_bits};
};

template <class Model>
CustomModelOptions options(std::string kind, std::string like) {
  return {.kind = std::move(kind),
          .like = std::move(like),
          .model_keys = {{"model.d_model"}},
          .make_network = [](const Scope& scope, const Config& config, const NetworkSizes& sizes) {
            return std::make_unique<Model>(scope, config, sizes);
          }};
}

}  // namespace

/// The variable WRONG_REGISTRATION chooses a mistake in the options; `absent` omits a model.
int main(int argc, char** argv) {
  std::vector<CustomModelOptions> models;
  for (const char* like : {"language_model", "masked_language_model", "seq2seq", "classifier",
                           "vision_transformer", "tagger"}) {
    models.push_back(options<Counts>("my_" + std::string(like), like));
  }
  models.push_back(options<Attentive>("attentive", "seq2seq"));
  models.back().model_keys = {{"model.d_model", "model.num_heads"}};
  models.back().custom_keys = {
      CustomKey("model.masks_padding", true, Flag(), "whether padding is masked")};
  models.push_back(options<Isolated>("isolated", "language_model"));
  models.push_back(options<Wrong>("wrong", "language_model"));
  models.back().custom_keys = {
      CustomKey("model.mistake", "none",
                OneOf{{"none", "wide_logits", "constructor", "reads_source", "shape", "dtype",
                       "number", "key", "loss"}},
                "what is wrong")};
  const char* chosen = std::getenv("WRONG_REGISTRATION");
  const std::string_view mistake = chosen == nullptr ? "" : chosen;
  if (mistake == "kind") models.back().kind = "classifier";
  if (mistake == "key") models.back().custom_keys.push_back(models.back().custom_keys.front());
  if (mistake == "default") {
    models.back().custom_keys = {CustomKey("model.window", 0, between(1, 64), "tokens")};
  }
  if (mistake == "absent") models.pop_back();
  const Majority majority;
  return run_program(argc, argv, {.models = models, .tasks = {&majority}});
}
