#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "layers/model.h"
#include "layers/transformer.h"
#include "tests/support/parameters.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"
#include "tests/train/wiring/model_kinds.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// A sublayer of a layer.
struct SublayerPlace {
  std::string stack;     ///< `encoder` or `decoder`
  std::size_t layer;     ///< from 0
  std::string sublayer;  ///< self_attn, cross_attn or ff

  std::string path() const { return stack + ".layers." + std::to_string(layer) + "." + sublayer; }
};

std::vector<SublayerPlace> places_of(const KindOptions& options) {
  std::vector<SublayerPlace> places;
  const auto add = [&](const std::string& stack, std::size_t layers, bool cross) {
    for (std::size_t i = 0; i < layers; ++i) {
      places.push_back({stack, i, "self_attn"});
      if (cross) places.push_back({stack, i, "cross_attn"});
      places.push_back({stack, i, "ff"});
    }
  };
  const std::string kind = model_kind_name(options.kind);
  if (encodes(kind)) add("encoder", options.num_encoder_layers, false);
  if (decodes(kind)) add("decoder", options.num_decoder_layers, encodes(kind));
  return places;
}

/// A model in which one place contributes, so that what is dropped there can be counted from
/// outside: all weights and biases are 0 but those of the place, which make it give ones. RMS norms
/// keep zeros. The input is one token a row, or an image of one pixel.
class IsolatedSublayerModel {
 public:
  static constexpr std::size_t width = 8;

  /// Adapts the options: heads of one feature each, as many features inside the feed-forward block
  /// as outside, RMS norms before the sublayers.
  IsolatedSublayerModel(KindOptions options, std::size_t rows, std::uint64_t seed)
      : options_(adapted(options)),
        model_(network_maker(
                   options_,
                   {.source = 3, .target = 3, .image = {.height = 1, .width = 1, .channels = 1}}),
               DType::float64, 1),
        rows_(rows),
        mode_(Mode::training(RandomStream(seed))) {}

  /// Zeroes all that was set.
  void zero_parameters() {
    for (const NamedTensor& p : model_.parameters) {
      if (p.name.ends_with("norm.weight")) continue;
      set_values(p.tensor, std::vector<double>(p.tensor.size(), 0.0));
    }
  }

  void fill(const std::string& name, double value) {
    const Tensor tensor = parameter(model_.parameters, name);
    set_values(tensor, std::vector<double>(tensor.size(), value));
  }

  void make_identity(const std::string& name) {
    const Tensor tensor = parameter(model_.parameters, name);
    std::vector<double> values(tensor.size(), 0.0);
    for (std::size_t i = 0; i < width; ++i) values[i * width + i] = 1.0;
    set_values(tensor, values);
  }

  /// The output of a sublayer is 1 whatever it reads: only its residual block drops something.
  void output_ones_from(const SublayerPlace& place) {
    zero_parameters();
    fill(place.path() + (place.sublayer == "ff" ? ".linear2.bias" : ".out_proj.bias"), 1.0);
  }

  /// It goes through the weights of attention, or through the activation, each feature by itself.
  void pass_ones_through(const SublayerPlace& place) {
    zero_parameters();
    const bool ff = place.sublayer == "ff";
    fill(place.path() + (ff ? ".linear1.bias" : ".v_proj.bias"), 1.0);
    make_identity(place.path() + (ff ? ".linear2.weight" : ".out_proj.weight"));
  }

  /// All token vectors are ones before their dropout.
  void set_embeddings_to_one() {
    for (const NamedTensor& p : model_.parameters) {
      const bool embedding = p.name.ends_with("embedding.weight");
      if (embedding) set_values(p.tensor, std::vector<double>(p.tensor.size(), 1 / std::sqrt(8.0)));
    }
    if (options_.kind != ModelKind::vision_transformer) return;
    fill("patches.projection.bias", 1.0);
    fill("patches.class_token", 1.0);
  }

  std::vector<std::vector<double>> token_vectors() const {
    const TokenVectors vectors = model_.network->embed(input(), mode_);
    std::vector<std::vector<double>> sides;
    if (vectors.source.defined()) sides.push_back(values_of(vectors.source));
    if (vectors.target.defined()) sides.push_back(values_of(vectors.target));
    return sides;
  }

  /// What the stack of a place gives for the first token of each row: rows * width values.
  std::vector<double> output(const SublayerPlace& place) const {
    const NetworkInput batch = input();
    if (options_.kind == ModelKind::seq2seq && place.stack == "encoder") {
      return values_of(model_.as<Transformer>().encode(batch.source, mode_));
    }
    const Network& network = *model_.network;
    return values_of(network.features(network.embed(batch, mode_), batch, mode_));
  }

  /// How many keys the first token attends to.
  std::size_t keys() const { return options_.kind == ModelKind::vision_transformer ? 2 : 1; }

 private:
  static KindOptions adapted(KindOptions options) {
    options.d_model = options.num_heads = options.d_ff = width;
    options.norm = NormPlacement::pre;
    options.normalization = Normalization::rms_norm;
    options.positions = PositionKind::none;
    options.patch_size = 1;
    return options;
  }

  NetworkInput input() const {
    const TokenBatch tokens{.ids = Ids(Shape{rows_, 1}, 2),
                            .lengths = std::vector<std::int32_t>(rows_, 1)};
    return {
        .source = tokens, .target = tokens, .images = Tensor::zeros({rows_, 1}, DType::float64)};
  }

  KindOptions options_;
  Model model_;
  std::size_t rows_;
  Mode mode_;
};

double share_of_zeros(const std::vector<double>& values) {
  return static_cast<double>(std::ranges::count(values, 0.0)) / static_cast<double>(values.size());
}

/// Checks a share among n independent draws, to four and a half deviations.
void check_share(double found, double expected, std::size_t n) {
  const double deviation = std::sqrt(expected * (1 - expected) / static_cast<double>(n));
  CHECK(std::abs(found - expected) <= 4.5 * deviation);
}

/// The rates of the four places, with the names of their keys.
struct Rates {
  double embedding = 0, attention = 0, activation = 0, residual = 0;
};
struct RatePlace {
  const char* key;
  double Rates::*rate;
};
constexpr std::array<RatePlace, 4> four_places{{{"model.embedding_dropout", &Rates::embedding},
                                                {"model.attention_dropout", &Rates::attention},
                                                {"model.activation_dropout", &Rates::activation},
                                                {"model.residual_dropout", &Rates::residual}}};

struct Setting {
  std::vector<std::string> overrides;
  Rates rates;
};

/// Each key without the others, all of them by `dropout`, and each with another `dropout`; then
/// every activation and score.
std::vector<Setting> all_settings() {
  std::vector<Setting> settings{{{"model.dropout=0.35"}, {0.35, 0.35, 0.35, 0.35}}};
  for (const RatePlace& place : four_places) {
    Setting one{{std::string(place.key) + "=0.3"}, {}};
    one.rates.*place.rate = 0.3;
    Setting other{{"model.dropout=0.5", std::string(place.key) + "=0.2"}, {0.5, 0.5, 0.5, 0.5}};
    other.rates.*place.rate = 0.2;
    settings.insert(settings.end(), {one, other});
  }
  for (const char* choice :
       {"activation=gelu", "activation=gelu_tanh", "activation=silu", "activation=swiglu",
        "activation=geglu", "score=dot_product", "score=additive", "score=bilinear"}) {
    settings.push_back({{"model.attention_dropout=0.3", "model.activation_dropout=0.45",
                         std::string("model.") + choice},
                        {0, 0.3, 0.45, 0}});
  }
  return settings;
}

#if defined(TAPESTRY_ASAN) || defined(TAPESTRY_TSAN)
constexpr std::size_t rows = 150;
#else
constexpr std::size_t rows = 500;
#endif

/// The share of zeros after the weights of attention, of which all keys have to be dropped, or
/// after the activation; and then the residual's dropout.
double expected_inside(const SublayerPlace& place, const Rates& rates, std::size_t keys) {
  const double inside = place.sublayer == "ff"
                            ? rates.activation
                            : std::pow(rates.attention, static_cast<double>(keys));
  return 1 - (1 - inside) * (1 - rates.residual);
}

}  // namespace

TEST_CASE("each of the four dropout rates applies at its own places of every kind of model only") {
  const Threads one(1);
  for (const KindCase& kind : kind_cases) {
    for (const Setting& setting : all_settings()) {
      CAPTURE(kind.name);
      CAPTURE(setting.overrides.back());
      const Rates& rates = setting.rates;
      const KindOptions options = parsed_options(kind, setting.overrides);
      IsolatedSublayerModel model(options, rows, 11);
      for (const SublayerPlace& place : places_of(options)) {
        CAPTURE(place.path());
        model.output_ones_from(place);
        const auto behind = model.output(place);
        REQUIRE(behind.size() == rows * IsolatedSublayerModel::width);
        check_share(share_of_zeros(behind), rates.residual, behind.size());
        model.pass_ones_through(place);
        const auto inside = model.output(place);
        check_share(share_of_zeros(inside), expected_inside(place, rates, model.keys()),
                    inside.size());
      }
      model.zero_parameters();
      model.set_embeddings_to_one();
      const auto sides = model.token_vectors();
      CHECK(sides.size() == (kind.kind == ModelKind::seq2seq ? 2 : 1));
      for (const auto& values : sides) {
        check_share(share_of_zeros(values), rates.embedding, values.size());
      }
      if (rates.embedding > 0 && sides.size() == 2) CHECK(sides[0] != sides[1]);
    }
  }
}

TEST_CASE(
    "stochastic depth leaves out layer l of L with l / L of its rate, in each stack by itself") {
  constexpr std::size_t sentences = 1200;
  const Threads one(1);
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    for (const int encoders : {2, 5}) {
      const int decoders = 7 - encoders;
      CAPTURE(encoders);
      std::vector<std::string> overrides = {"model.stochastic_depth=0.8"};
      if (encodes(kind.name))
        overrides.push_back("model.num_encoder_layers=" + std::to_string(encoders));
      if (decodes(kind.name))
        overrides.push_back("model.num_decoder_layers=" + std::to_string(decoders));
      const KindOptions options = parsed_options(kind, overrides);
      IsolatedSublayerModel model(options, sentences, 14);
      for (const SublayerPlace& place : places_of(options)) {
        CAPTURE(place.path());
        model.output_ones_from(place);
        const auto values = model.output(place);
        const double layers = place.stack == "encoder" ? encoders : decoders;
        const double expected = 0.8 * static_cast<double>(place.layer + 1) / layers;
        check_share(share_of_zeros(values), expected, sentences);
        std::size_t torn = 0;  // sentences of which a part is left out
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::size_t first = i / IsolatedSublayerModel::width * IsolatedSublayerModel::width;
          torn += (values[i] == 0.0) != (values[first] == 0.0);
        }
        CHECK(torn == 0);
      }
    }
  }
}
