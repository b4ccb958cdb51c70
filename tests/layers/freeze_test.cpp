// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "layers/basic_layers.h"
#include "layers/norm.h"
#include "tests/layers/network_cases.h"
#include "tests/support/errors.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The gradients of all parameters, in order; nullopt for a parameter without a gradient.
using Gradients = std::vector<std::optional<std::vector<double>>>;

Gradients all_gradients(const Parameters& parameters) {
  Gradients all;
  for (const NamedTensor& p : parameters) {
    const Tensor gradient = p.tensor.grad();
    all.push_back(gradient.defined() ? std::optional(values_of(gradient)) : std::nullopt);
  }
  return all;
}

Gradients gradients_of_step(MadeNetwork& made, const Ids& labels) {
  made.parameters.zero_grad();
  const NetworkInput input = network_input();
  const Mode mode = Mode::training(RandomStream(4));
  const Network& network = *made.network;
  Tape tape;
  const Tensor features = network.features(network.embed(input, mode), input, mode);
  tape.backward(network.loss(features, labels, {}).mean);
  return all_gradients(made.parameters);
}

/// The gradients, with nullopt for the parameters at `frozen`.
Gradients without(Gradients gradients, const std::vector<std::size_t>& frozen) {
  for (const std::size_t i : frozen) gradients[i].reset();
  return gradients;
}

/// Freezes each parameter separately, and checks that the gradients of the other parameters do not
/// change.
void check_each_frozen_separately(const KindOptions& options, const Ids& labels) {
  CAPTURE(model_kind_name(options.kind));
  const Threads one(1);
  MadeNetwork made(options);
  perturb(made.parameters);
  const Gradients all = gradients_of_step(made, labels);
  const auto& list = made.parameters.list();
  for (std::size_t i = 0; i < list.size(); ++i) {
    CAPTURE(list[i].name);
    made.parameters.freeze(list[i].name);
    const bool others_are_equal = gradients_of_step(made, labels) == without(all, {i});
    CHECK(others_are_equal);
    made.parameters.unfreeze(list[i].name);
  }
  const bool all_are_back = gradients_of_step(made, labels) == all;
  CHECK(all_are_back);
}

/// Two linear layers in sequence.
struct TwoLinears {
  Parameters parameters{DType::float64, 1};
  Linear first{Scope(parameters) / "first", 3, 5};
  Linear second{Scope(parameters) / "second", 5, 2};

  Gradients step() {
    parameters.zero_grad();
    Tape tape;
    const Tensor y = second(first(Tensor::ones({4, 3}, DType::float64)));
    tape.backward(y, y);
    return all_gradients(parameters);
  }
};

}  // namespace

TEST_CASE(
    "a frozen parameter has no gradient; other gradients are unchanged, in models of every kind") {
  for (const ModelKind kind : every_model_kind) {
    check_each_frozen_separately(with_kind(small(), kind), labels_for(kind));
  }
}

TEST_CASE(
    "a frozen parameter has no gradient; other gradients are unchanged, for all layer choices") {
  const Normalization norms[] = {Normalization::layer_norm, Normalization::rms_norm,
                                 Normalization::batch_norm};
  std::size_t next = 0;
  for (TransformerOptions options : every_choice()) {
    options.num_encoder_layers = options.num_decoder_layers = 1;
    options.normalization = norms[next++ % std::size(norms)];
    check_each_frozen_separately(with_kind(options, ModelKind::seq2seq),
                                 labels_for(ModelKind::seq2seq));
  }
}

TEST_CASE("operations whose operands are all frozen are not recorded") {
  TwoLinears layers;
  layers.parameters.freeze("first");
  Tape tape;
  const Tensor hidden = layers.first(Tensor::ones({4, 3}, DType::float64));
  CHECK_FALSE(hidden.requires_grad());
  CHECK(tape.size() == 0);
  CHECK(layers.second(hidden).requires_grad());
  CHECK(tape.size() == 1);
}

TEST_CASE("freeze() selects by path, and unfreeze() restores the gradients") {
  for (const bool gather_first : {false, true}) {
    TwoLinears layers;
    Parameters& parameters = layers.parameters;
    const std::vector<std::string> names = listing(parameters);
    const Gradients all = layers.step();
    if (gather_first) parameters.gather();

    parameters.freeze("first.");
    CHECK_FALSE(parameters.list()[0].tensor.grad().defined());  // discarded by freeze()
    CHECK(layers.step() == without(all, {0, 1}));
    CHECK(listing(parameters) == names);
    CHECK(parameters.num_values() == 20 + 12);
    if (!gather_first) parameters.gather();

    parameters.freeze("second.bias");
    parameters.unfreeze("first.weight");
    CHECK(layers.step() == without(all, {1, 3}));
    parameters.unfreeze("");
    CHECK(layers.step() == all);
    const Tensor gradient = parameters.list()[1].tensor.grad();
    CHECK(gradient.memory().data() == parameters.list()[0].tensor.grad().memory().data());
    CHECK(gradient.byte_offset() == parameters.list()[1].tensor.byte_offset());
  }
}

TEST_CASE("freeze() of a path that does not exist is rejected with the existing names") {
  TwoLinears layers;
  check_error<ValueError>("freeze:|`frist`|`first`|`second`",
                          [&] { layers.parameters.freeze("frist."); });
  check_error<ValueError>("unfreeze: no parameter is named `second.wieght`",
                          [&] { layers.parameters.unfreeze("second.wieght"); });
  for (const NamedTensor& p : layers.parameters) CHECK(p.tensor.requires_grad());
}

TEST_CASE("a frozen batch norm still updates its running moments in training") {
  Parameters parameters(DType::float64, 1);
  const BatchNorm norm(Scope(parameters) / "norm", 2);
  parameters.freeze("norm");
  const Tensor x = Tensor::from({2, 2}, {1, 2, 3, 4}, DType::float64);
  const Tensor mean = parameters.buffers()[0].tensor;
  Tape tape;
  norm(x, {}, Mode::inference());
  check_values(mean, {0.0, 0.0});
  norm(x, {}, Mode::training());
  check_values(mean, {0.2, 0.3});
}
