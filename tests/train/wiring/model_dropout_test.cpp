#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "tests/support/threads.h"
#include "tests/train/wiring/model_dropout_places.h"
#include "tests/train/wiring/model_kinds.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The rates of the four places.
struct Rates {
  double embedding, attention, activation, residual;
};

struct Setting {
  std::vector<std::string> overrides;
  Rates rates;
};

/// Each key alone, all of them by `dropout`, and each beside another `dropout`.
const std::vector<Setting> settings = {
    {{"model.embedding_dropout=0.15"}, {0.15, 0, 0, 0}},
    {{"model.attention_dropout=0.3"}, {0, 0.3, 0, 0}},
    {{"model.activation_dropout=0.45"}, {0, 0, 0.45, 0}},
    {{"model.residual_dropout=0.6"}, {0, 0, 0, 0.6}},
    {{"model.dropout=0.35"}, {0.35, 0.35, 0.35, 0.35}},
    {{"model.dropout=0.5", "model.embedding_dropout=0.2"}, {0.2, 0.5, 0.5, 0.5}},
    {{"model.dropout=0.5", "model.attention_dropout=0.2"}, {0.5, 0.2, 0.5, 0.5}},
    {{"model.dropout=0.5", "model.activation_dropout=0.2"}, {0.5, 0.5, 0.2, 0.5}},
    {{"model.dropout=0.5", "model.residual_dropout=0.2"}, {0.5, 0.5, 0.5, 0.2}},
    {{"model.dropout=0.5", "model.embedding_dropout=0", "model.attention_dropout=0",
      "model.activation_dropout=0", "model.residual_dropout=0"},
     {0, 0, 0, 0}},
};

#if defined(TAPESTRY_ASAN) || defined(TAPESTRY_TSAN)
constexpr std::size_t rows = 150;
#else
constexpr std::size_t rows = 500;
#endif

/// The share of zeros behind the weights of attention, of which all keys have to be dropped, or
/// behind the activation; and then the residual's dropout.
double expected_inside(const SublayerPlace& place, const Rates& rates, std::size_t keys) {
  const double inside = place.sublayer == "ff"
                            ? rates.activation
                            : std::pow(rates.attention, static_cast<double>(keys));
  return 1 - (1 - inside) * (1 - rates.residual);
}

void check_places(const KindOptions& options, const Rates& rates) {
  IsolatedSublayerModel model(options, rows, 11);
  for (const SublayerPlace& place : places_of(options)) {
    CAPTURE(place.path());
    model.output_ones_from(place);
    const auto behind = model.output(place);
    REQUIRE(behind.size() == rows * IsolatedSublayerModel::width);
    check_share(share_of_zeros(behind), rates.residual, behind.size());
    model.pass_ones_through(place);
    const auto inside = model.output(place);
    check_share(share_of_zeros(inside), expected_inside(place, rates, model.keys()), inside.size());
  }
}

}  // namespace

TEST_CASE("each of the four dropout rates applies at its own places of every sublayer only") {
  const Threads one(1);
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    for (const Setting& setting : settings) {
      CAPTURE(setting.overrides.back());
      check_places(parsed_options(kind, setting.overrides), setting.rates);
    }
  }
}

TEST_CASE("embedding dropout applies to all token vectors of every side, and no other rate does") {
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    for (const Setting& setting : settings) {
      CAPTURE(setting.overrides.back());
      IsolatedSublayerModel model(parsed_options(kind, setting.overrides), rows, 12);
      model.zero_parameters();
      model.set_embeddings_to_one();
      const double rate = setting.rates.embedding;
      const auto sides = model.token_vectors();
      CHECK(sides.size() == (kind.kind == ModelKind::seq2seq ? 2 : 1));
      for (const auto& values : sides) {
        check_share(share_of_zeros(values), rate, values.size());
        for (const double value : values) {
          if (value != 0.0) REQUIRE(value == doctest::Approx(1 / (1 - rate)).epsilon(1e-12));
        }
      }
      if (rate > 0 && sides.size() == 2) CHECK(sides[0] != sides[1]);
    }
  }
}

TEST_CASE("activation dropout applies after every activation, attention dropout to every score") {
  const Threads one(1);
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    const std::vector<std::string> rates = {"model.attention_dropout=0.3",
                                            "model.activation_dropout=0.45"};
    const auto check = [&](const std::string& choice) {
      CAPTURE(choice);
      std::vector<std::string> overrides = rates;
      overrides.push_back("model." + choice);
      check_places(parsed_options(kind, overrides), {0, 0.3, 0.45, 0});
    };
    for (const char* name : {"gelu", "gelu_tanh", "silu", "swiglu", "geglu"}) {
      check(std::string("activation=") + name);
    }
    for (const char* name : {"dot_product", "additive", "bilinear"}) {
      check(std::string("score=") + name);
    }
  }
}

TEST_CASE("no two residual blocks, activations or attentions have the same dropout") {
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    for (const char* depth : {"model.stochastic_depth=0", "model.stochastic_depth=0.5"}) {
      const bool deep = std::string(depth).ends_with(".5");
      const auto options =
          parsed_options(kind, {deep ? "model.dropout=0" : "model.dropout=0.5", depth});
      IsolatedSublayerModel model(options, 60, 13);
      std::set<std::vector<bool>> patterns;
      const auto note = [&](const SublayerPlace& place) {
        std::vector<bool> zero;
        for (const double value : model.output(place)) zero.push_back(value == 0.0);
        patterns.insert(zero);
      };
      std::size_t expected = 0;
      for (const SublayerPlace& place : places_of(options)) {
        model.output_ones_from(place);
        note(place);
        model.pass_ones_through(place);
        note(place);
        expected += deep ? 1 : 2;
      }
      CHECK(patterns.size() == expected);
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
