// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <string>

#include "autograd/ops/losses.h"
#include "layers/model.h"
#include "layers/transformer.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "tests/support/golden.h"

using namespace tapestry;
using namespace tapestry::test;

/// Compares training with PyTorch. tests/golden/training.py uses the same constants and writes the
/// expected numbers.
namespace {

constexpr std::size_t steps = 50;
constexpr std::size_t batches = 3;
constexpr std::size_t rows = 4;
constexpr std::size_t words = 8;
constexpr std::int32_t padding_id = 0;

TransformerOptions options_of(NormPlacement norm, Activation activation, TiedEmbeddings tie) {
  return {.d_model = 6,
          .num_heads = 2,
          .num_encoder_layers = 2,
          .num_decoder_layers = 2,
          .d_ff = 10,
          .dropout = 0.0,
          .norm = norm,
          .activation = activation,
          .tie_embeddings = tie};
}

/// The ids of batch b of an input of shape (batches, rows, length).
Ids ids_of(const Golden& file, const std::string& name, std::size_t b) {
  const std::size_t length = file.at("input/" + name).shape().back();
  const std::vector<std::int32_t> all = file.integers(name);
  Ids ids = Ids::zeros({rows, length});
  std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(b * ids.size()), ids.size(), ids.begin());
  return ids;
}

TokenBatch tokens_of(const Golden& file, const std::string& name, std::size_t b) {
  const std::vector<std::int32_t> all = file.integers(name + "_lengths");
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(b * rows);
  return {.ids = ids_of(file, name, b), .lengths = {first, first + rows}};
}

double backward(const Transformer& model, const Golden& file, std::size_t b) {
  Tape tape;
  const Tensor logits =
      model(tokens_of(file, "source", b), tokens_of(file, "target", b), Mode::inference());
  const Tensor loss = cross_entropy(logits, ids_of(file, "labels", b),
                                    {.ignored_id = padding_id, .label_smoothing = 0.1})
                          .mean;
  tape.backward(loss);
  return loss.item();
}

struct History {
  std::vector<double> losses, norms, learning_rates;
};

History train(const Golden& file, const TransformerOptions& options, DType dtype) {
  Parameters parameters(dtype, 1);
  const Transformer model(Scope(parameters), options, words, words, padding_id);
  file.load(parameters.list());
  const auto optimizer = make_optimizer(
      {.kind = OptimizerKind::adam, .beta2 = 0.98, .epsilon = 1e-9}, parameters.list());
  const auto schedule = make_schedule(
      {.kind = ScheduleKind::inverse_sqrt, .learning_rate = 0.01, .warmup_steps = 10});
  History history;
  for (std::size_t step = 1; step <= steps; ++step) {
    parameters.zero_grad();
    history.losses.push_back(backward(model, file, step % batches));
    history.norms.push_back(global_gradient_norm(parameters.list()));
    history.learning_rates.push_back(schedule->learning_rate(step));
    optimizer->step(history.learning_rates.back(), clip_factor(history.norms.back(), 1.0));
  }
  return history;
}

/// Checks that the relative error of each number is at most `relative`.
void check_each(const Golden& file, const std::string& name, const std::vector<double>& found,
                double relative) {
  CAPTURE(name);
  const std::vector<double> expected = values_of(file.at(name));
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CAPTURE(found[i]);
    CAPTURE(expected[i]);
    CHECK(std::abs(found[i] - expected[i]) <= relative * std::abs(expected[i]));
  }
}

/// Allows a relative error of `relative` for losses, and an error ten times as large for gradient
/// norms, which are not means over the targets.
void check_training(const std::string& name, const TransformerOptions& options, DType dtype,
                    double relative) {
  CAPTURE(name);
  const Golden file("training.txt", name, dtype);
  const History history = train(file, options, dtype);
  check_each(file, "learning_rates", history.learning_rates, 1e-14);
  check_each(file, "losses", history.losses, relative);
  check_each(file, "norms", history.norms, 10 * relative);
}

const TransformerOptions pre_tied =
    options_of(NormPlacement::pre, Activation::gelu, TiedEmbeddings::target);
const TransformerOptions post_untied =
    options_of(NormPlacement::post, Activation::relu, TiedEmbeddings::none);

}  // namespace

TEST_CASE("fifty training steps in float64 give the same losses as PyTorch") {
  check_training("pre_tied", pre_tied, DType::float64, 1e-8);
  check_training("post_untied", post_untied, DType::float64, 1e-8);
}

// Each step has rounding errors of 6e-8, and Adam amplifies the errors of small gradients.
TEST_CASE("fifty training steps in float32 give almost the same losses as PyTorch in float64") {
  check_training("pre_tied", pre_tied, DType::float32, 2e-4);
  check_training("post_untied", post_untied, DType::float32, 2e-4);
}
