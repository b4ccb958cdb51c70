// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/parameter_file.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/random.h"
#include "autograd/tape.h"
#include "layers/basic_layers.h"
#include "layers/norm.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/error_text.h"
#include "train/base/error.h"
#include "train/checkpoint/array_store.h"
#include "train/checkpoint/checkpoint_file.h"

namespace tapestry {
namespace {

using test::contains;
using test::error_text;
using test::TemporaryFolder;
using Names = std::vector<std::string>;

/// A batch norm, which has buffers, and a linear layer.
struct SmallModel {
  explicit SmallModel(std::uint64_t seed, DType dtype = DType::float32, std::size_t out = 2,
                      const std::string& head = "head")
      : parameters(dtype, seed),
        norm(Scope(parameters) / "norm", 3, {.kind = Normalization::batch_norm}),
        linear(Scope(parameters) / head, 3, out) {}

  std::vector<double> values() const {
    std::vector<double> all;
    const auto add = [&](const std::vector<NamedTensor>& tensors) {
      for (const NamedTensor& each : tensors) {
        const Tensor exact = each.tensor.detach().to(DType::float64);
        all.insert(all.end(), exact.values<double>().begin(), exact.values<double>().end());
      }
    };
    add(parameters.list());
    add(parameters.buffers());
    return all;
  }

  Parameters parameters;
  Norm norm;
  Linear linear;
};

/// Changes the value of each buffer.
void change_buffers(const SmallModel& model) {
  for (NamedTensor buffer : model.parameters.buffers()) {
    for (float& value : buffer.tensor.mutable_values<float>()) value = 0.75F;
  }
}

TEST_CASE("parameters and buffers loaded from a file are bit-identical to the saved values") {
  const TemporaryFolder folder;
  const SmallModel saved(1);
  change_buffers(saved);
  save_parameters(saved.parameters, folder / "model.h5");
  SmallModel loaded(2);
  REQUIRE(loaded.values() != saved.values());
  const LoadReport report = load_parameters(loaded.parameters, folder / "model.h5");
  CHECK(loaded.values() == saved.values());
  CHECK(report.complete());
  CHECK(report.loaded == Names{"norm.weight", "norm.bias", "head.weight", "head.bias",
                               "norm.running_mean", "norm.running_var"});
  CHECK(to_string(report) == "6 matching tensors");
  CHECK(to_string(LoadReport{.loaded = {"head.weight"}}) == "1 matching tensor");
}

TEST_CASE("values are converted to the element type of the model") {
  const TemporaryFolder folder;
  const SmallModel saved(1);
  save_parameters(saved.parameters, folder / "model.h5");
  SmallModel exact(2, DType::float64);
  load_parameters(exact.parameters, folder / "model.h5");
  CHECK(exact.values() == saved.values());
  save_parameters(exact.parameters, folder / "exact.h5");
  SmallModel back(3);
  load_parameters(back.parameters, folder / "exact.h5");
  CHECK(back.values() == saved.values());
}

TEST_CASE("load_parameters lists all tensors that do not fit and leaves the model unchanged") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.h5";
  save_parameters(SmallModel(1).parameters, path);
  SmallModel wider(2, DType::float32, 4);
  const std::vector<double> before = wider.values();
  const std::string text =
      error_text<CheckpointError>([&] { load_parameters(wider.parameters, path); });
  CHECK(text.starts_with(path + ": does not fit the model:\n4 matching tensors\nother shapes: "));
  CHECK(contains(text, "head.weight (2, 3), expected (4, 3), head.bias (2), expected (4)"));
  CHECK(wider.values() == before);

  SmallModel renamed(2, DType::float32, 2, "output");
  CHECK(contains(
      error_text<CheckpointError>([&] { load_parameters(renamed.parameters, path); }),
      "missing in the file: output.weight, output.bias\nnot in the model: head.bias, head.weight"));
}

TEST_CASE("load_parameters without strict loads tensors that fit and reports all other tensors") {
  const TemporaryFolder folder;
  const SmallModel saved(1);
  save_parameters(saved.parameters, folder / "model.h5");
  SmallModel wider(2, DType::float32, 4);
  const Tensor head = wider.parameters.find("head.weight")->tensor.detach().to(DType::float64);
  for (NamedTensor each : wider.parameters.list()) {
    for (float& value : each.tensor.mutable_values<float>()) value += 1.0F;
  }
  const LoadReport report =
      load_parameters(wider.parameters, folder / "model.h5", {.strict = false});
  CHECK(report.loaded.size() == 4);
  REQUIRE(report.other_shape.size() == 2);
  CHECK(report.other_shape[0].name == "head.weight");
  CHECK(wider.parameters.find("norm.weight")->tensor.values<float>()[0] == 1.0F);  // as saved
  CHECK(wider.parameters.find("head.weight")->tensor.values<float>()[0] ==
        static_cast<float>(head.values<double>()[0]) + 1.0F);  // unchanged
}

/// Trains the model with an optimizer, with different numbers in each step.
void train(SmallModel& model, Optimizer& optimizer, int steps) {
  for (int i = 0; i < steps; ++i) {
    const RandomStream random = RandomStream(5).at(optimizer.steps());
    model.parameters.zero_grad();
    Tape tape;
    const Tensor x = random_normal({4, 3}, random);
    tape.backward(sum(square(model.linear(x))));
    optimizer.step(0.01);
  }
}

template <class Made>
void check_continues(const Made& make) {
  const TemporaryFolder folder;
  SmallModel whole(1);
  change_buffers(whole);
  const std::unique_ptr<Optimizer> all_steps = make(whole);
  train(whole, *all_steps, 5);
  save_parameters(whole.parameters, *all_steps, folder / "state.h5");
  train(whole, *all_steps, 5);

  SmallModel continued(2);
  const std::unique_ptr<Optimizer> more_steps = make(continued);
  train(continued, *more_steps, 1);
  load_parameters(continued.parameters, *more_steps, folder / "state.h5");
  CHECK(more_steps->steps() == 5);
  CHECK(continued.values() != whole.values());
  train(continued, *more_steps, 5);
  CHECK(continued.values() == whole.values());
  CHECK(more_steps->steps() == 10);
}

TEST_CASE("training continues bit-identically from a file with parameters and optimizer state") {
  check_continues(
      [](SmallModel& model) { return std::make_unique<Adam>(model.parameters.list()); });
  check_continues([](SmallModel& model) {
    return std::make_unique<Sgd>(model.parameters.list(), OptimizerOptions{.momentum = 0.9});
  });
  check_continues([](SmallModel& model) {
    return std::make_unique<Sgd>(model.parameters.list(), OptimizerOptions{.momentum = 0.0});
  });
}

TEST_CASE(
    "a file without state of this kind of optimizer is rejected, and the model does not change") {
  const TemporaryFolder folder;
  SmallModel saved(1);
  Sgd sgd(saved.parameters.list(), {.momentum = 0.9});
  train(saved, sgd, 3);
  const std::string path = folder / "state.h5";
  save_parameters(saved.parameters, path);
  SmallModel model(2);
  Adam adam(model.parameters.list());
  const std::vector<double> before = model.values();
  const auto rejection = [&](SmallModel& to, Optimizer& optimizer) {
    return error_text<CheckpointError>([&] { load_parameters(to.parameters, optimizer, path); });
  };
  CHECK(rejection(model, adam).starts_with(path + ": has no optimizer state"));

  save_parameters(saved.parameters, sgd, path);
  CHECK(contains(rejection(model, adam), "the saved optimizer state does not fit"));
  CHECK(contains(rejection(model, adam), "missing in the file: first_moment/norm.weight, "));
  CHECK(contains(rejection(model, adam), "\nnot in the model: momentum/"));
  Sgd plain(model.parameters.list(), {.momentum = 0.0});
  CHECK(contains(rejection(model, plain), "the saved optimizer state does not fit"));
  SmallModel wider(2, DType::float32, 4);
  Sgd of_wider(wider.parameters.list(), {.momentum = 0.9});
  CHECK(contains(rejection(wider, of_wider), ": does not fit the model:\n"));
  CHECK(model.values() == before);
  CHECK(adam.steps() == 0);

  CHECK(load_parameters(model.parameters, path).complete());  // ignores the optimizer
  CHECK(model.values() == saved.values());
}

TEST_CASE("an optimizer continues with the parameters of a run, not with their averages") {
  const TemporaryFolder folder;
  SmallModel saved(1), averages(3), loaded(2);
  Adam adam(saved.parameters.list());
  train(saved, adam, 2);
  ArrayStore snapshot;
  put_tensors(snapshot, "parameters", saved.parameters.list());
  put_tensors(snapshot, "buffers", saved.parameters.buffers());
  put_tensors(snapshot, "average", averages.parameters.list());
  put_tensors(snapshot, "optimizer", adam.state());
  snapshot.put_scalar<std::uint64_t>("optimizer/steps", 2);
  write_checkpoint(folder / "run.h5", snapshot);
  Adam of_loaded(loaded.parameters.list());
  load_parameters(loaded.parameters, of_loaded, folder / "run.h5");
  CHECK(loaded.values() == saved.values());
  load_parameters(loaded.parameters, folder / "run.h5");
  CHECK(loaded.values() != saved.values());
}

TEST_CASE("reports shorten long lists, and integer arrays cannot be loaded into parameters") {
  LoadReport many;
  for (int i = 0; i < 10; ++i) many.missing.push_back("layer" + std::to_string(i));
  CHECK(to_string(many).ends_with("layer6, layer7 and 2 more"));
  const TemporaryFolder folder;
  const SmallModel saved(1);
  ArrayStore snapshot;
  put_tensors(snapshot, "parameters", {saved.parameters.list()[0]});
  snapshot.put<std::int32_t>("parameters/norm.bias", std::vector<std::int32_t>{1, 2, 3}, {3});
  write_checkpoint(folder / "x.h5", snapshot);
  SmallModel model(2);
  const LoadReport report = load_parameters(model.parameters, folder / "x.h5", {.strict = false});
  CHECK(report.loaded == Names{"norm.weight"});
  REQUIRE(report.other_shape.size() == 1);
  CHECK(report.other_shape[0].name == "norm.bias");
}

TEST_CASE("damaged and missing files, and files without tensors of the model, are rejected") {
  const TemporaryFolder folder;
  const std::string path = folder / "other.h5";
  ArrayStore snapshot;
  snapshot.put<float>("parameters/other", std::vector<float>{1.0F}, {1});
  write_checkpoint(path, snapshot);
  SmallModel model(1);
  for (const bool strict : {true, false}) {
    CHECK(error_text<CheckpointError>([&] {
            load_parameters(model.parameters, path, {.strict = strict});
          }).starts_with(path + ": found no tensor with a name and shape of the model"));
  }
  CHECK_THROWS_AS(load_parameters(model.parameters, folder.write("x.h5", "text")), CheckpointError);
  CHECK_THROWS_AS(load_parameters(model.parameters, folder / "none.h5"), CheckpointError);
  CHECK_THROWS_AS(save_parameters(model.parameters, folder / "none/x.h5"), OutputError);
}

}  // namespace
}  // namespace tapestry
