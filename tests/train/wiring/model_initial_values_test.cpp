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
#include "tests/train/wiring/model_parameters.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

using Kind = InitialValues::Kind;

/// Sizes in which no two fans have the same sum.
KindOptions options_of(const KindCase& kind) {
  KindOptions options = base_options(kind);
  options.d_model = 10;
  options.d_head = 7;
  options.d_ff = 19;
  options.positions = PositionKind::learned;
  return options;
}

/// Between them they have every tensor that a model can have.
std::vector<KindOptions> choices_of_kind(const KindCase& kind) {
  KindOptions plain = options_of(kind), additive = plain, bilinear = plain;
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

double distribution(Kind kind, double x) {
  if (kind == Kind::normal) return 0.5 * std::erfc(-x / std::sqrt(2.0));
  return std::clamp((x + 1) / 2, 0.0, 1.0);
}

/// The Kolmogorov-Smirnov distance of the values from a distribution.
double distance(Kind kind, std::vector<double> values) {
  std::ranges::sort(values);
  const auto n = static_cast<double>(values.size());
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = distribution(kind, values[i]);
    worst = std::max({worst, std::abs(expected - static_cast<double>(i) / n),
                      std::abs(expected - static_cast<double>(i + 1) / n)});
  }
  return worst;
}

double root_mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

/// Checks values of one tensor, those of many seeds together, divided by their scale.
void check_distribution(Kind kind, const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  CHECK(distance(kind, values) < 2.4 / std::sqrt(n));  // exceeded once in 50,000 cases
  const double deviation = kind == Kind::normal ? 1.0 : 1 / std::sqrt(3.0);
  CHECK(root_mean_square(values) == doctest::Approx(deviation).epsilon(4.5 / std::sqrt(2 * n)));
  if (kind == Kind::normal) return;
  const auto [lowest, highest] = std::ranges::minmax(values);
  CHECK(lowest >= -1);
  CHECK(highest <= 1);
  CHECK(lowest < -1 + 24 / n);
  CHECK(highest > 1 - 24 / n);
}

constexpr std::size_t seeds = 120;
constexpr std::size_t enough = 1200;  // values of one tensor

}  // namespace

TEST_CASE("every tensor of every kind of model starts from its documented distribution") {
  const Threads one(1);
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    for (const KindOptions& options : choices_of_kind(kind)) {
      const NetworkSizes sizes = sizes_of(options);
      const ExpectedTensors expected = expected_tensors(options, sizes);
      std::map<std::string, std::vector<double>> drawn;
      for (std::size_t seed = 1; seed <= seeds; ++seed) {
        Parameters parameters(DType::float64, seed);
        network_maker(options, sizes)(Scope(parameters));
        std::size_t full = 0;
        for (const ExpectedTensor& tensor : expected.parameters) {
          std::vector<double>& values = drawn[tensor.name];
          const bool constant = tensor.initial.kind == Kind::constant;
          if (values.size() >= (constant ? 1 : enough)) {
            ++full;
            continue;
          }
          const NamedTensor* found = parameters.find(tensor.name);
          REQUIRE_MESSAGE(found != nullptr, tensor.name);
          const auto more = values_of(found->tensor);
          values.insert(values.end(), more.begin(), more.end());
        }
        if (full == expected.parameters.size()) break;
      }
      for (const ExpectedTensor& tensor : expected.parameters) {
        CAPTURE(tensor.name);
        std::vector<double> values = drawn.at(tensor.name);
        const auto [form, scale] = tensor.initial;
        if (form == Kind::constant) {
          CHECK(std::ranges::count(values, scale) == static_cast<std::ptrdiff_t>(values.size()));
          continue;
        }
        REQUIRE(values.size() >= enough);
        for (double& value : values) value /= scale;
        check_distribution(form, values);
      }
    }
  }
}

TEST_CASE("running moments of batch norms are initially those of standard normal features") {
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    KindOptions options = base_options(kind);
    options.normalization = Normalization::batch_norm;
    const Model model(network_maker(options, sizes_of(options)), DType::float64, 1);
    const ExpectedTensors tensors = expected_tensors(options, sizes_of(options));
    for (const ExpectedTensor& expected : tensors.buffers) {
      CAPTURE(expected.name);
      const auto found =
          std::ranges::find(model.parameters.buffers(), expected.name, &NamedTensor::name);
      REQUIRE(found != model.parameters.buffers().end());
      CHECK(values_of(found->tensor) ==
            std::vector<double>(options.d_model, expected.initial.scale));
    }
  }
}

TEST_CASE("no two tensors of a model have the same initial random numbers") {
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    for (const KindOptions& options : choices_of_kind(kind)) {
      const NetworkSizes sizes = sizes_of(options);
      const Model model(network_maker(options, sizes), DType::float64, 1);
      std::set<std::vector<std::int64_t>> beginnings;
      std::size_t random = 0;
      const ExpectedTensors expected = expected_tensors(options, sizes);
      for (const ExpectedTensor& tensor : expected.parameters) {
        if (tensor.initial.kind == Kind::constant) continue;
        const auto values = values_of(model.parameters.find(tensor.name)->tensor);
        std::vector<std::int64_t> beginning;  // rounded, since values are divided by their scale
        for (std::size_t i = 0; i < 4; ++i) {
          beginning.push_back(std::llround(values[i] / tensor.initial.scale * 1e9));
        }
        beginnings.insert(beginning);
        ++random;
      }
      CHECK(beginnings.size() == random);
    }
  }
}
