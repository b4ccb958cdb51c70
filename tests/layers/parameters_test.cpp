// SPDX-License-Identifier: BSD-3-Clause
#include "layers/parameters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/linear.h"
#include "autograd/tape.h"
#include "layers/basic_layers.h"
#include "layers/embedding.h"
#include "tests/support/errors.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// Two linear layers in sequence, with their parameters.
struct TwoLayers {
  Parameters parameters{DType::float64, 1};
  Linear first{Scope(parameters) / "first", 3, 5};
  Linear second{Scope(parameters) / "second", 5, 2};
  Tensor operator()(const Tensor& x) const { return second(first(x)); }
};

/// The values of y and of all gradients of a step.
std::vector<std::vector<double>> step(TwoLayers& layers, const Tensor& x) {
  layers.parameters.zero_grad();
  Tape tape;
  const Tensor y = layers(x);
  tape.backward(y, y);
  std::vector<std::vector<double>> all{values_of(y)};
  for (const NamedTensor& p : layers.parameters) all.push_back(values_of(p.tensor.grad()));
  return all;
}

}  // namespace

TEST_CASE("parameters are listed in the order of creation and found by name") {
  Parameters parameters(DType::float32, 1);
  const Tensor b = parameters.create("b", {2, 3}, ones_initializer());
  parameters.create("a", {4}, zeros_initializer());
  CHECK(listing(parameters) == std::vector<std::string>{"b (2, 3)", "a (4)"});
  CHECK(parameters.num_values() == 10);
  CHECK(parameters.dtype() == DType::float32);
  CHECK(b.dtype() == DType::float32);
  CHECK(parameters.find("c") == nullptr);
  REQUIRE(parameters.find("b") != nullptr);
  CHECK(parameters.find("b")->tensor.values<float>().data() == b.values<float>().data());
}

TEST_CASE("parameters without values have names and shapes and allocate no memory") {
  Parameters parameters = Parameters::without_values(DType::float32);
  const std::size_t huge = std::size_t{1} << 40U;  // more than the memory of any machine
  const Linear layer(Scope(parameters) / "ff", huge, 2);
  CHECK(listing(parameters) ==
        std::vector<std::string>{"ff.weight (2, 1099511627776)", "ff.bias (2)"});
  CHECK(parameters.num_values() == 2 * huge + 2);
  CHECK(parameters.dtype() == DType::float32);
  check_error<ValueError>("parameters:|`ff.bias`",
                          [&] { parameters.create("ff.bias", {2}, zeros_initializer()); });

  const Positions table(Scope(parameters), 2, {.max_length = huge});
  CHECK(parameters.num_constants() == 2 * huge);
  CHECK(parameters.num_values() == 2 * huge + 2);
}

TEST_CASE("every parameter requires a gradient, and zero_grad() clears all gradients") {
  TwoLayers layers;
  step(layers, random_leaf({4, 3}, 1));
  for (const NamedTensor& p : layers.parameters) CHECK(p.tensor.grad().defined());
  layers.parameters.zero_grad();
  for (const NamedTensor& p : layers.parameters) {
    CHECK(p.tensor.requires_grad());
    CHECK_FALSE(p.tensor.grad().defined());
  }
}

TEST_CASE("a scope joins names and numbers with dots") {
  Parameters parameters(DType::float64, 1);
  const Scope root(parameters);
  CHECK(root.path().empty());
  CHECK((root / "encoder" / "layers" / 11 / "ff").path() == "encoder.layers.11.ff");
  root.parameter("scale", {1}, ones_initializer());
  (root / "encoder").parameter("bias", {2}, zeros_initializer());
  (Scope(parameters, "a.b") / "c").parameter("weight", {3}, zeros_initializer());
  CHECK(listing(parameters) ==
        std::vector<std::string>{"scale (1)", "encoder.bias (2)", "a.b.c.weight (3)"});
}

TEST_CASE("Parameters can be passed as the scope of a whole model") {
  struct Model {
    explicit Model(const Scope& scope)
        : weight(scope.parameter("weight", {2}, zeros_initializer())) {}
    Tensor weight;
  };
  Parameters parameters(DType::float32, 1);
  const Model model(parameters);
  CHECK(parameters.find("weight")->tensor.identity() == model.weight.identity());
}

TEST_CASE("the path of a scope remains valid after the scope is destroyed") {
  Parameters parameters(DType::float64, 1);
  std::optional<Scope> scope(Scope(parameters) / "encoder" / "layers");
  const std::string& path = scope->path();
  scope.reset();
  CHECK(path == "encoder.layers");
}

TEST_CASE("gather() moves values and gradients into one buffer each, on 64-byte boundaries") {
  TwoLayers layers;  // parameters of 120, 40, 80 and 16 bytes
  const auto before = values_of(parameter(layers.parameters, "second.weight"));
  layers.parameters.gather();
  CHECK(values_of(parameter(layers.parameters, "second.weight")) == before);
  step(layers, random_leaf({4, 3}, 1));
  const std::size_t offsets[] = {0, 128, 192, 320};
  const auto& list = layers.parameters.list();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Tensor gradient = list[i].tensor.grad();
    CHECK(list[i].tensor.byte_offset() == offsets[i]);
    CHECK(gradient.byte_offset() == offsets[i]);
    CHECK(list[i].tensor.memory().data() == list[0].tensor.memory().data());
    CHECK(gradient.memory().data() == list[0].tensor.grad().memory().data());
  }
}

TEST_CASE("every step with gathered parameters is bit-identical to a step without gather()") {
  TwoLayers gathered;
  TwoLayers scattered;
  gathered.parameters.gather();
  for (const std::uint64_t seed : {1, 2}) {
    const Tensor x = random_leaf({4, 3}, seed);
    CHECK(step(gathered, x) == step(scattered, x));
  }
}

TEST_CASE("create() rejects an existing name, and any name after gather()") {
  Parameters parameters(DType::float64, 1);
  parameters.create("ff.weight", {1}, ones_initializer());
  check_error<ValueError>("parameters:|`ff.weight`",
                          [&] { parameters.create("ff.weight", {2}, ones_initializer()); });
  parameters.gather();
  check_error<ValueError>("parameters:|`ff.bias`|`gather`",
                          [&] { parameters.create("ff.bias", {1}, ones_initializer()); });
  CHECK(listing(parameters) == std::vector<std::string>{"ff.weight (1)"});
}

TEST_CASE("later steps do not change a state_dict(), and load_state_dict() restores it") {
  for (const bool gathered : {false, true}) {
    TwoLayers layers;
    layers.parameters.create_buffer("moments", {2}, ones_initializer());
    Tensor moments = layers.parameters.buffers()[0].tensor;
    if (gathered) layers.parameters.gather();
    const Tensor x = random_leaf({4, 3}, 1);
    const auto before = step(layers, x);
    const std::vector<NamedTensor> best = layers.parameters.state_dict();
    REQUIRE(best.size() == 5);
    CHECK(best[4].name == "moments");
    for (const NamedTensor& p : layers.parameters) {
      Tensor tensor = p.tensor;
      for (double& value : tensor.mutable_values<double>()) value += 1.0;
    }
    moments.mutable_values<double>()[0] = 7.0;
    CHECK(step(layers, x) != before);
    layers.parameters.load_state_dict(best);
    CHECK(step(layers, x) == before);
    check_values(moments, {1.0, 1.0});
    check_values(best[4].tensor, {1.0, 1.0});
  }
}

TEST_CASE("load_state_dict() converts values to the element type of the parameters") {
  Parameters from(DType::float64, 1), to(DType::float32, 2);
  from.create("a", {2}, normal_initializer(1.0));
  const Tensor a = to.create("a", {2}, normal_initializer(1.0));
  to.load_state_dict(from.state_dict());
  CHECK(values_of(a) == values_of(from.state_dict()[0].tensor.detach().to(DType::float32)));
}

TEST_CASE("load_state_dict() rejects a state that does not match and leaves parameters unchanged") {
  TwoLayers layers;
  const std::vector<NamedTensor> snapshot = layers.parameters.state_dict();
  const Tensor weight = layers.parameters.list()[0].tensor;
  const auto before = values_of(weight);
  auto changed = snapshot;
  changed[0].tensor = Tensor::zeros({5, 3}, DType::float64);
  auto without = changed;
  without.pop_back();
  check_error<ValueError>("load_state_dict:|`second.bias`",
                          [&] { layers.parameters.load_state_dict(without); });
  auto reshaped = changed;
  reshaped[3].tensor = Tensor::zeros({3}, DType::float64);
  check_error<ShapeError>("load_state_dict:|`second.bias`|(3)|(2)",
                          [&] { layers.parameters.load_state_dict(reshaped); });
  auto more = changed;
  more.push_back({"third", Tensor::zeros({1}, DType::float64)});
  check_error<ValueError>("load_state_dict:|`third`",
                          [&] { layers.parameters.load_state_dict(more); });
  auto twice = changed;
  twice.push_back(changed[1]);
  check_error<ValueError>("load_state_dict:|`first.bias`",
                          [&] { layers.parameters.load_state_dict(twice); });
  CHECK(values_of(weight) == before);
  static_assert(!std::is_copy_constructible_v<Parameters>);  // a copy would share the values
}

TEST_CASE("Parameters::with_zeros() creates parameters with value 0 and calls no initializer") {
  Parameters parameters = Parameters::with_zeros(DType::float32);
  const Scope scope(parameters);
  bool called = false;
  const auto initializer = [&](const RandomStream&, std::size_t) {
    called = true;
    return 1.0;
  };
  const Tensor weight = scope.parameter("weight", {2, 3}, initializer);
  scope.buffer("mean", {3}, initializer);
  const Tensor table = scope.constant({2}, [](DType dtype) { return Tensor::full({2}, 5, dtype); });
  CHECK_FALSE(called);
  CHECK(weight.to_vector() == std::vector<double>(6, 0.0));
  CHECK(parameters.buffers().front().tensor.to_vector() == std::vector<double>(3, 0.0));
  CHECK(table.to_vector() == std::vector<double>{5, 5});
  CHECK(weight.requires_grad());
}

namespace {

constexpr std::size_t many = 40000;

std::vector<double> drawn(const Initializer& initializer, std::uint64_t seed,
                          DType dtype = DType::float64) {
  Tensor tensor = Tensor::empty({many}, dtype);
  initialize(tensor, initializer, RandomStream(seed));
  return values_of(tensor);
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double mean_square(const std::vector<double>& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0) /
         static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("zeros and ones initializers fill a tensor with 0 and 1") {
  for (const DType dtype : dtypes) {
    Tensor tensor = Tensor::full({2, 2}, 5, dtype);
    initialize(tensor, zeros_initializer(), RandomStream(1));
    CHECK(values_of(tensor) == std::vector<double>{0, 0, 0, 0});
    initialize(tensor, ones_initializer(), RandomStream(1));
    CHECK(values_of(tensor) == std::vector<double>{1, 1, 1, 1});
  }
}

TEST_CASE("Glorot uniform with fan 4 and 2 maps the stream from (0, 1) to (-1, 1)") {
  const RandomStream random(3);
  const Initializer initializer = glorot_uniform(4, 2);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(initializer(random, i) == doctest::Approx(2 * random.uniform(i) - 1).epsilon(1e-15));
  }
}

TEST_CASE("Glorot uniform fills its range evenly and has variance 2 / (fan_in + fan_out)") {
  const auto values = drawn(glorot_uniform(30, 20), 1);
  const double limit = std::sqrt(6.0 / 50.0);
  const auto [lowest, highest] = std::ranges::minmax(values);
  CHECK(lowest > -limit);
  CHECK(lowest < -0.999 * limit);
  CHECK(highest < limit);
  CHECK(highest > 0.999 * limit);
  CHECK(mean_of(values) == doctest::Approx(0.0).epsilon(0.005).scale(1.0));
  CHECK(mean_square(values) == doctest::Approx(2.0 / 50.0).epsilon(0.02));
}

TEST_CASE("a normal initializer has mean 0 and the given standard deviation") {
  const auto values = drawn(normal_initializer(0.25), 1);
  CHECK(mean_of(values) == doctest::Approx(0.0).epsilon(0.005).scale(1.0));
  CHECK(std::sqrt(mean_square(values)) == doctest::Approx(0.25).epsilon(0.02));
  const auto beyond_two = std::ranges::count_if(values, [](double v) { return std::abs(v) > 0.5; });
  CHECK(static_cast<double>(beyond_two) / many == doctest::Approx(0.0455).epsilon(0.1));
}

TEST_CASE("initial values depend on the stream and not on the number of threads") {
  CHECK(same_on_any_number_of_threads([] { return drawn(glorot_uniform(3, 4), 1); }));
  CHECK(drawn(glorot_uniform(3, 4), 1) != drawn(glorot_uniform(3, 4), 2));
}
