// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "layers/encoder_models.h"
#include "layers/transformer.h"
#include "tests/layers/network_cases.h"
#include "tests/support/errors.h"
#include "tests/support/guarded_memory.h"

using namespace tapestry;
using namespace tapestry::test;

/// Common cases for models of every kind.
namespace {

using Names = std::vector<std::string>;

constexpr ModelKind token_kinds[] = {ModelKind::language_model, ModelKind::masked_language_model,
                                     ModelKind::tagger, ModelKind::classifier};

bool classifies_rows(ModelKind kind) {
  return kind == ModelKind::classifier || kind == ModelKind::vision_transformer;
}

/// All kinds of models. Kinds that pool occur twice, with class-token and with mean pooling.
std::vector<KindOptions> every_kind(const TransformerOptions& options) {
  std::vector<KindOptions> all;
  for (const ModelKind kind : every_model_kind) {
    all.push_back(with_kind(options, kind));
    if (!classifies_rows(kind)) continue;
    all.push_back(all.back());
    all.back().pooling = PoolingKind::mean;
  }
  return all;
}

/// The logits of these tokens, as source and target.
Tensor logits(const MadeNetwork& made, const TokenBatch& tokens) {
  return (*made.network)({.source = tokens, .target = tokens}, Mode::inference());
}

/// A model without layers, for 3 words or 2 classes.
std::unique_ptr<Network> without_layers(const Scope& scope, ModelKind kind, PoolingKind pooling) {
  const TransformerOptions o{.d_model = 2,
                             .num_heads = 1,
                             .num_encoder_layers = 0,
                             .num_decoder_layers = 0,
                             .dropout = 0.0,
                             .norm = NormPlacement::post,
                             .tie_embeddings = TiedEmbeddings::target,
                             .pooling = pooling};
  switch (kind) {
    case ModelKind::seq2seq:
      return std::make_unique<Transformer>(scope, o, 3, 3, padding_id);
    case ModelKind::language_model:
      return std::make_unique<LanguageModel>(scope, o, 3, padding_id);
    case ModelKind::masked_language_model:
      return std::make_unique<MaskedLanguageModel>(scope, o, 3, padding_id);
    case ModelKind::tagger:
      return std::make_unique<Tagger>(scope, o, 3, 2, padding_id);
    default:
      return std::make_unique<Classifier>(scope, o, 3, 2, padding_id);
  }
}

}  // namespace

TEST_CASE("models without layers compute scores from embeddings plus positions") {
  const double root = std::sqrt(2.0);
  const double first[] = {root, 2 * root + 1};
  const double second[] = {3 * root + std::sin(1.0), 4 * root + std::cos(1.0)};
  // Scores from a weight matrix with the rows (0, 0), (1, 2) and (3, 4) and the biases 10, 20
  // and 30.
  const auto words = [](const double* x) {
    return std::vector{10.0, 20 + x[0] + 2 * x[1], 30 + 3 * x[0] + 4 * x[1]};
  };
  const auto labels = [](double x0, double x1) { return std::vector{100 + x0, 200 + 10 * x1}; };
  const auto joined = [](std::vector<double> a, const std::vector<double>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  struct Case {
    ModelKind kind;
    PoolingKind pooling;
    std::vector<double> expected;
  };
  const std::vector<double> of_words = joined(words(first), words(second));
  const Case cases[] = {
      {ModelKind::seq2seq, {}, of_words},
      {ModelKind::language_model, {}, of_words},
      {ModelKind::masked_language_model, {}, of_words},
      {ModelKind::tagger, {}, joined(labels(first[0], first[1]), labels(second[0], second[1]))},
      {ModelKind::classifier, PoolingKind::class_token, labels(first[0], first[1])},
      {ModelKind::classifier, PoolingKind::mean,
       labels((first[0] + second[0]) / 2, (first[1] + second[1]) / 2)},
  };
  for (const Case& c : cases) {
    CAPTURE(model_kind_name(c.kind));
    Parameters parameters(DType::float64, 1);
    const auto network = without_layers(Scope(parameters), c.kind, c.pooling);
    const bool translates = c.kind == ModelKind::seq2seq;
    set_values(parameters, translates ? "target_embedding.weight" : "embedding.weight",
               {0, 0, 1, 2, 3, 4});
    if (parameters.find("head.weight") != nullptr) {
      set_values(parameters, "head.weight", {1, 0, 0, 10});
      set_values(parameters, "head.bias", {100, 200});
    } else {
      set_values(parameters, "output.bias", {10, 20, 30});
    }
    const TokenBatch tokens{.ids = {{1, 2}}, .lengths = {2}};
    const NetworkInput input{.source = tokens, .target = tokens};
    check_values((*network)(input, Mode::inference()), c.expected);
  }
}

TEST_CASE("a vision Transformer without layers scores its class token, or the mean of all tokens") {
  for (const PoolingKind pooling : {PoolingKind::class_token, PoolingKind::mean}) {
    TransformerOptions options = small();
    options.pooling = pooling;
    options.d_model = options.num_heads = options.patch_size = 1;
    options.num_encoder_layers = 0;
    options.norm = NormPlacement::post;
    options.positions = PositionKind::learned;
    options.max_length = 3;
    Parameters parameters(DType::float64, 1);
    const VisionTransformer model(Scope(parameters), options,
                                  {.height = 1, .width = 2, .channels = 1}, 2);
    set_values(parameters, "patches.projection.weight", {2});
    set_values(parameters, "patches.class_token", {7});
    set_values(parameters, "positions.weight", {100, 200, 300});
    set_values(parameters, "head.weight", {1, -1});
    set_values(parameters, "head.bias", {0.5, 0});
    const Network& network = model;
    const Tensor y =
        network({.images = Tensor::from({1, 2}, {4, 5}, DType::float64)}, Mode::inference());
    CHECK(y.shape() == Shape{1, 1, 2});
    // The tokens are 7 + 100, 8 + 200 and 10 + 300.
    const double pooled = pooling == PoolingKind::mean ? 625.0 / 3 : 107.0;
    check_values(y, {pooled + 0.5, -pooled});
  }
}

TEST_CASE("outside its stacks, a model has the parameters of embeddings, positions and output") {
  using enum TiedEmbeddings;
  struct Case {
    ModelKind kind;
    TiedEmbeddings tie;
    PositionKind positions;
    Names expected;
  };
  const Names tied{"embedding.weight (11, 8)", "output.bias (11)"};
  const Names own{"embedding.weight (11, 8)", "positions.weight (7, 8)", "output.weight (11, 8)",
                  "output.bias (11)"};
  const Names head{"embedding.weight (11, 8)", "positions.weight (7, 8)", "head.weight (3, 8)",
                   "head.bias (3)"};
  constexpr auto fixed = PositionKind::sinusoidal, learned = PositionKind::learned;
  const Case cases[] = {
      {ModelKind::seq2seq,
       none,
       fixed,
       {"target_embedding.weight (11, 8)", "source_embedding.weight (11, 8)",
        "output.weight (11, 8)", "output.bias (11)"}},
      {ModelKind::seq2seq,
       TiedEmbeddings::target,
       learned,
       {"target_embedding.weight (11, 8)", "source_embedding.weight (11, 8)",
        "source_positions.weight (7, 8)", "target_positions.weight (7, 8)", "output.bias (11)"}},
      {ModelKind::seq2seq, all, fixed, {"target_embedding.weight (11, 8)", "output.bias (11)"}},
      {ModelKind::language_model, none, learned, own},
      {ModelKind::language_model, TiedEmbeddings::target, fixed, tied},
      {ModelKind::language_model, all, fixed, tied},
      {ModelKind::masked_language_model, none, learned, own},
      {ModelKind::masked_language_model, TiedEmbeddings::target, fixed, tied},
      {ModelKind::tagger, none, learned, head},
      {ModelKind::classifier, none, learned, head},
      {ModelKind::vision_transformer,
       none,
       learned,
       {"patches.projection.weight (8, 8)", "patches.projection.bias (8)",
        "patches.class_token (1, 1, 8)", "positions.weight (7, 8)", "head.weight (3, 8)",
        "head.bias (3)"}},
  };
  for (const Case& c : cases) {
    CAPTURE(model_kind_name(c.kind));
    TransformerOptions options = small();
    options.tie_embeddings = c.tie;
    options.positions = c.positions;
    Names found;
    for (const std::string& line : listing(MadeNetwork(with_kind(options, c.kind)).parameters)) {
      if (!line.starts_with("encoder.") && !line.starts_with("decoder.")) found.push_back(line);
    }
    CHECK(found == c.expected);
  }
}

TEST_CASE("a model has only the stacks of its kind, and ignores the options of other stacks") {
  TransformerOptions options = small();
  options.num_encoder_layers = 3;
  options.num_decoder_layers = 1;
  for (const ModelKind kind : every_model_kind) {
    CAPTURE(model_kind_name(kind));
    const MadeNetwork made(with_kind(options, kind));
    const auto has = [&](const char* layer) {
      return made.parameters.find(std::string(layer) + ".ff.linear1.weight") != nullptr;
    };
    const bool writes = kind == ModelKind::seq2seq || kind == ModelKind::language_model;
    CHECK(has("encoder.layers.2") == (kind != ModelKind::language_model));
    CHECK_FALSE(has("encoder.layers.3"));
    CHECK(has("decoder.layers.0") == writes);
    CHECK_FALSE(has("decoder.layers.1"));
    CHECK(made.network->causal() == writes);
  }
}

TEST_CASE("the scores of a token depend only on the tokens that it may attend to") {
  for (const TransformerOptions& options : every_choice()) {
    for (const ModelKind kind : token_kinds) {
      CAPTURE(model_kind_name(kind));
      const MadeNetwork made(with_kind(options, kind));
      const Tensor before = logits(made, sentences);
      const bool rows = classifies_rows(kind);
      for (std::size_t row = 0; row < 2; ++row) {
        const auto length = static_cast<std::size_t>(sentences.lengths[row]);
        for (std::size_t changed = 0; changed < 4; ++changed) {
          TokenBatch other = sentences;
          other.ids(row, changed) = 2;
          const Tensor after = logits(made, other);
          for (std::size_t t = 0; t < (rows ? 1 : length); ++t) {
            const bool sees =
                changed < length && (kind != ModelKind::language_model || changed <= t);
            const bool near = options.window == 0 || rows;
            if (near || !sees) {
              CHECK((scores_at(before, row, t) != scores_at(after, row, t)) == sees);
            }
          }
          const std::size_t last = rows ? 0 : 1;
          CHECK(scores_at(before, 1 - row, last) == scores_at(after, 1 - row, last));
        }
      }
    }
  }
}

TEST_CASE("logits of an image depend on each of its pixels and on no other image") {
  for (const PoolingKind pooling : {PoolingKind::class_token, PoolingKind::mean}) {
    KindOptions options = with_kind(small(), ModelKind::vision_transformer);
    options.pooling = pooling;
    const MadeNetwork made(options);
    const NetworkInput input = network_input();
    const Tensor before = (*made.network)(input, Mode::inference());
    CHECK(before.shape() == Shape{2, 1, classes});
    for (std::size_t pixel = 0; pixel < image_shape.values(); ++pixel) {
      Tensor images = input.images.detach().to(DType::float64);
      images.mutable_values<double>()[image_shape.values() + pixel] += 1.0;
      const Tensor after = (*made.network)({.images = images}, Mode::inference());
      CHECK(scores_at(before, 0, 0) == scores_at(after, 0, 0));
      CHECK(scores_at(before, 1, 0) != scores_at(after, 1, 0));
    }
  }
}

TEST_CASE("the loss of a model of every kind is the cross entropy of its logits") {
  for (const ModelKind kind : every_model_kind) {
    CAPTURE(model_kind_name(kind));
    const MadeNetwork made(with_kind(small(), kind));
    const NetworkInput input = network_input();
    const Network& network = *made.network;
    const Tensor features =
        network.features(network.embed(input, Mode::inference()), input, Mode::inference());
    const CrossEntropyOptions options{.label_smoothing = 0.1};
    const Loss loss = network.loss(features, labels_for(kind), options);
    const Loss expected =
        cross_entropy(network(input, Mode::inference()), labels_for(kind), options);
    CHECK(loss.mean.item() == doctest::Approx(expected.mean.item()));
    CHECK(loss.nll_sum == doctest::Approx(expected.nll_sum));
  }
}

// Takes seconds, since it repeats the same computation for every coordinate.
TEST_CASE("the gradients of every kind of model agree with finite differences for all options" *
          doctest::skip(is_guarded_run())) {
  for (const TransformerOptions& choice : every_choice()) {
    for (const KindOptions& options : every_kind(choice)) {
      CAPTURE(model_kind_name(options.kind));
      CAPTURE(static_cast<int>(options.norm));
      CAPTURE(static_cast<int>(options.activation));
      const MadeNetwork made(options);
      perturb(made.parameters);
      const auto run = [&] {
        return (*made.network)(network_input(), Mode::training(RandomStream(4)));
      };
      check_gradients(run, made.parameters, {}, {.max_coordinates = 6});
    }
  }
}

TEST_CASE("models of every kind reject long sequences, unknown ids and a wrong number of lengths") {
  for (const ModelKind kind : token_kinds) {
    CAPTURE(model_kind_name(kind));
    const MadeNetwork made(with_kind(small(), kind));
    CHECK_NOTHROW(logits(made, padded(sentences, 3, padding_id)));
    check_error<ShapeError>("positions: |8|7",
                            [&] { logits(made, padded(sentences, 4, padding_id)); });
    for (const std::int32_t id : {11, -1}) {
      TokenBatch wrong = sentences;
      wrong.ids(1, 2) = id;
      check_error<ValueError>("embedding: embedding|(1, 2)|" + std::to_string(id) + "|11",
                              [&] { logits(made, wrong); });
    }
    TokenBatch one_length = sentences;
    one_length.lengths.pop_back();
    check_error<ShapeError>("layers.0.self_attn: |1 lengths|2", [&] { logits(made, one_length); });
  }
  KindOptions options = with_kind(small(), ModelKind::vision_transformer);
  check_error<ShapeError>("patches: patch embedding|(2, 16)|4", [&] {
    (*MadeNetwork(options).network)({.images = Tensor::zeros({2, 16}, DType::float64)},
                                    Mode::inference());
  });
  options.patch_size = 1;
  check_error<ShapeError>("positions: |17|7", [&] {
    (*MadeNetwork(options).network)(network_input(), Mode::inference());
  });
}

TEST_CASE("calling a language model equals decode() followed by logits()") {
  const MadeNetwork made(with_kind(small(), ModelKind::language_model));
  const auto& model = dynamic_cast<const LanguageModel&>(*made.network);
  const auto expected = values_of(logits(made, sentences));
  CHECK(values_of(model(sentences, Mode::inference())) == expected);
  CHECK(values_of(model.logits(model.decode(sentences, Mode::inference()))) == expected);
}

TEST_CASE("logits depend on the random stream only with dropout") {
  for (const ModelKind kind : every_model_kind) {
    CAPTURE(static_cast<int>(kind));
    const NetworkInput input = network_input();
    KindOptions options = with_kind(small(), kind);
    const MadeNetwork plain(options);
    const auto scores = values_of((*plain.network)(input, Mode::inference()));
    CHECK(values_of((*plain.network)(input, Mode::training(RandomStream(1)))) == scores);
    options.dropout = 0.3;
    const MadeNetwork dropping(options);
    const auto dropped =
        values_of((*dropping.network)(input, Mode::training(RandomStream(1).at(1))));
    CHECK(values_of((*dropping.network)(input, Mode::inference())) == scores);
    CHECK(dropped != scores);
    CHECK(values_of((*dropping.network)(input, Mode::training(RandomStream(1).at(1)))) == dropped);
    CHECK(values_of((*dropping.network)(input, Mode::training(RandomStream(1).at(2)))) != dropped);
  }
}

TEST_CASE("in every kind of model, dropout applies to the embeddings") {
  for (const ModelKind kind : every_model_kind) {
    CAPTURE(static_cast<int>(kind));
    KindOptions options = with_kind(small(), kind);
    options.dropout = 0.5;
    const MadeNetwork made(options);
    const TokenVectors kept = made.network->embed(network_input(), Mode::inference());
    const TokenVectors dropped =
        made.network->embed(network_input(), Mode::training(RandomStream(1)));
    if (kept.source.defined()) CHECK(values_of(kept.source) != values_of(dropped.source));
    if (kept.target.defined()) CHECK(values_of(kept.target) != values_of(dropped.target));
    CHECK((kept.source.defined() || kept.target.defined()));
  }
}

TEST_CASE("loss and gradients of every kind of model are bit-identical on any number of threads") {
  for (const ModelKind kind : every_model_kind) {
    CAPTURE(static_cast<int>(kind));
    KindOptions options = with_kind(small(), kind);
    options.d_model = 32;
    options.d_ff = 64;
    options.dropout = 0.1;
    options.pooling = PoolingKind::mean;
    MadeNetwork made(options, DType::float32);
    NetworkInput input = network_input();
    input.images = input.images.detach().to(DType::float32);
    CHECK(same_on_any_number_of_threads([&] { return step(made, input, labels_for(kind)); }));
  }
}

TEST_CASE("every kind of model has the same parameter count with and without values") {
  for (const ModelKind kind : every_model_kind) {
    CAPTURE(static_cast<int>(kind));
    const MadeNetwork made(with_kind(small(), kind));
    Parameters counted = Parameters::without_values(DType::float64);
    make_network(Scope(counted), with_kind(small(), kind));
    CHECK(listing(counted) == listing(made.parameters));
    CHECK(counted.num_values() == made.parameters.num_values());
    CHECK(counted.num_constants() == made.parameters.num_constants());
    CHECK(counted.num_constants() > 0);
  }
}
