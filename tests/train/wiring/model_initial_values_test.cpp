// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "layers/model.h"
#include "layers/parameters.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"
#include "tests/train/wiring/model_kinds.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The initial values of a parameter: all equal to `scale`, uniform in [-scale, scale], or normal
/// with mean 0 and standard deviation `scale`.
struct InitialValues {
  enum class Kind { constant, uniform, normal } kind;
  double scale;
};
using Kind = InitialValues::Kind;

/// The documented initial values of a parameter with this name and shape.
InitialValues initial_values(const NamedTensor& parameter, std::size_t d_model) {
  const std::string& name = parameter.name;
  const Shape& shape = parameter.tensor.shape();
  const auto size = [&](std::size_t axis) { return static_cast<double>(shape[axis]); };
  const auto is = [&](const char* end) { return name.ends_with(end); };
  if (is(".bias")) return {Kind::constant, 0};
  if (is("norm.weight")) return {Kind::constant, 1};
  if (is("embedding.weight") || is("positions.weight") || is("class_token")) {
    return {Kind::normal, 1 / std::sqrt(static_cast<double>(d_model))};
  }
  if (shape.rank() == 3) return {Kind::normal, 1 / size(1)};  // bilinear scores
  // Glorot & Bengio 2010, eq. 16.
  const double fans = is("score.weight") ? size(1) + 1 : size(0) + size(1);
  return {Kind::uniform, std::sqrt(6.0 / fans)};
}

/// Options whose tensors differ in the sum of their fans (the inputs and outputs of Glorot &
/// Bengio). Together the options create every tensor that a model can have.
std::vector<KindOptions> options_of_kind(const KindCase& kind) {
  KindOptions plain = base_options(kind);
  plain.d_model = 10;
  plain.d_head = 7;
  plain.d_ff = 19;
  plain.positions = PositionKind::learned;
  KindOptions additive = plain, bilinear = plain;
  additive.score = AttentionScore::additive;
  additive.activation = Activation::swiglu;
  additive.normalization = Normalization::rms_norm;
  bilinear.score = AttentionScore::bilinear;
  bilinear.activation = Activation::geglu;
  bilinear.normalization = Normalization::batch_norm;
  if (kind.kind == ModelKind::seq2seq) additive.tie_embeddings = TiedEmbeddings::all;
  if (!predicts_classes(kind.name)) bilinear.tie_embeddings = TiedEmbeddings::target;
  return {plain, additive, bilinear};
}

/// Checks the values of one tensor for many seeds, divided by their scale: their standard
/// deviation, and their minimum and maximum, which distinguish the two distributions.
void check_distribution(Kind kind, const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const double deviation = kind == Kind::normal ? 1.0 : 1 / std::sqrt(3.0);
  CHECK(std::abs(sum / n) < 4.5 * deviation / std::sqrt(n));
  CHECK(std::sqrt(squares / n) == doctest::Approx(deviation).epsilon(4.5 / std::sqrt(2 * n)));
  const auto [lowest, highest] = std::ranges::minmax(values);
  if (kind == Kind::normal) {
    CHECK(lowest < -2.2);
    CHECK(highest > 2.2);
  } else {
    CHECK(lowest >= -1);
    CHECK(lowest < -1 + 24 / n);
    CHECK(highest <= 1);
    CHECK(highest > 1 - 24 / n);
  }
}

constexpr std::size_t max_seeds = 120;
constexpr std::size_t enough = 1200;  // values to draw for one tensor

}  // namespace

TEST_CASE("every tensor of every kind of model has its documented initial distribution") {
  const Threads one(1);
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    for (const KindOptions& options : options_of_kind(kind)) {
      std::map<std::string, std::vector<double>> drawn;  // values divided by their scale
      std::map<std::string, Kind> kinds;
      std::set<std::vector<std::int64_t>> beginnings;  // first values of each tensor, rounded
      for (std::size_t seed = 1; seed <= max_seeds; ++seed) {
        Parameters parameters(DType::float64, seed);
        network_maker(options, sizes_of(options))(Scope(parameters));
        for (const NamedTensor& parameter : parameters) {
          CAPTURE(parameter.name);
          const auto [form, scale] = initial_values(parameter, options.d_model);
          kinds[parameter.name] = form;
          std::vector<double> values = values_of(parameter.tensor);
          if (form == Kind::constant) {
            CHECK(std::ranges::count(values, scale) == std::ssize(values));
            continue;
          }
          for (double& value : values) value /= scale;
          if (seed == 1) {  // no two tensors have the same random numbers
            std::vector<std::int64_t> beginning;
            for (std::size_t i = 0; i < 4; ++i) beginning.push_back(std::llround(values[i] * 1e9));
            CHECK(beginnings.insert(beginning).second);
          }
          std::vector<double>& all = drawn[parameter.name];
          if (all.size() < enough) all.insert(all.end(), values.begin(), values.end());
        }
        if (std::ranges::all_of(drawn, [](const auto& d) { return d.second.size() >= enough; }))
          break;
      }
      for (const auto& tensor : drawn) {
        CAPTURE(tensor.first);
        CHECK(tensor.second.size() >= enough);
        check_distribution(kinds.at(tensor.first), tensor.second);
      }
    }
  }
}

TEST_CASE("running moments of batch norms are initially 0 and 1") {
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    KindOptions options = base_options(kind);
    options.normalization = Normalization::batch_norm;
    const Model model(network_maker(options, sizes_of(options)), DType::float64, 1);
    CHECK_FALSE(model.parameters.buffers().empty());
    for (const NamedTensor& buffer : model.parameters.buffers()) {
      CAPTURE(buffer.name);
      CHECK(values_of(buffer.tensor) ==
            std::vector<double>(options.d_model, buffer.name.ends_with("var") ? 1.0 : 0.0));
    }
  }
}
