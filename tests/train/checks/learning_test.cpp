#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "tests/train/checks/context.h"
#include "train/checks/check.h"
#include "train/checks/one_step.h"
#include "train/inference/batch_tensors.h"

/// The checks of precision and learning, on models that are wrong.
namespace tapestry {
namespace {

using test::contains;
using test::logits_changed;
using test::tiny_context;

test::Change scaled_by(double factor) {
  return logits_changed([factor](const Tensor& logits, auto&) { return scale(logits, factor); });
}

TEST_CASE("precision fails for a model that computes something else in float32") {
  const CheckResult result = precision(tiny_context([](CheckedModel& model) {
    if (model.dtype() == DType::float32) scaled_by(1.01)(model);
  }));
  CHECK(result.status == CheckStatus::failed);
  CHECK(contains(result.details, " in float32, "));
}

TEST_CASE("precision fails for a model whose gradients differ in float32") {
  const CheckResult result = precision(tiny_context([](CheckedModel& model) {
    if (model.dtype() == DType::float64) return;
    model.embed = [whole = model.embed](const NetworkInput& input,
                                        const Mode& mode) -> TokenVectors {
      const TokenVectors read = whole(input, mode);
      return {.source = read.source.copied(DType::float32), .target = read.target};
    };
  }));
  CHECK(result.status == CheckStatus::failed);
  CHECK(result.details ==
        "gradients of source_embedding.weight differ by inf (relative), tolerance 1e-03");
}

TEST_CASE("precision prints the difference of the losses, relative to that in float64") {
  for (const double smoothing : {0.0, 0.3}) {
    CheckContext context = tiny_context();
    context.label_smoothing = smoothing;
    const auto loss = [&](DType dtype) {
      return compute_loss(context.copy(dtype), context.batch,
                          {.label_smoothing = std::max(smoothing, 0.1)});
    };
    const double exact = loss(DType::float64), rounded = loss(DType::float32);
    const CheckResult result = precision(context);
    CHECK(result.status == CheckStatus::passed);
    CHECK(result.details.starts_with(
        fmt::format("float32 against float64, relative: loss {:.1e} (tolerance 1e-05), gradients "
                    "up to ",
                    std::abs(rounded - exact) / exact)));
    CHECK(result.details.ends_with(" (1e-03)"));
    context = tiny_context([](CheckedModel& model) {
      if (model.dtype() == DType::float32) scaled_by(1.01)(model);
    });
    context.label_smoothing = smoothing;
    CHECK(precision(context).details == fmt::format("loss {:.9g} in float32, {:.9g} in float64, "
                                                    "tolerance 1e-05 (relative)",
                                                    loss(DType::float32), exact));
  }
}

TEST_CASE("initial_loss and overfit_batch start from the cross entropy of the model") {
  CheckContext context = tiny_context();
  context.label_smoothing = 0.5;
  const auto loss = [&](DType dtype, double smoothing) {
    return compute_loss(context.copy(dtype), context.batch, {.label_smoothing = smoothing});
  };
  CHECK(initial_loss(context).details ==
        fmt::format("loss {:.3f}, ln(9) is 2.197, tolerance 1.5", loss(DType::float64, 0.5)));
  const CheckResult learned = overfit_batch(context);
  CHECK(learned.status == CheckStatus::passed);
  CHECK(learned.details.starts_with(
      fmt::format("loss of 6 examples from {:.3f} to 0.0", loss(DType::float32, 0.0))));
}

TEST_CASE("initial_loss allows more for tied embeddings") {
  CheckContext context = tiny_context();
  CHECK(initial_loss(context).details.ends_with(", tolerance 1.5"));
  context.tied_width = 16;
  context.vocabulary = 9;  // ln(1 + exp(4) / 9) is 1.956
  CHECK(initial_loss(context).details.ends_with(", tolerance 3.46"));
}

TEST_CASE("initial_loss fails for logits that are too large initially") {
  const CheckResult result = initial_loss(tiny_context(scaled_by(10.0)));
  CHECK(result.status == CheckStatus::failed);
  CHECK(result.details.ends_with(", ln(9) is 2.197, tolerance 1.5"));
}

TEST_CASE("initial_loss fails for a model that reads its labels") {
  const Ids labels = label_ids(tiny_context().batch);
  CheckContext context = tiny_context(logits_changed([&](const Tensor& logits, auto&) {
    Tensor changed = logits.copied(logits.dtype());
    const auto values = changed.mutable_values<double>();
    std::size_t first = 0;
    for (const std::int32_t label : labels) {
      if (label != no_label) values[first + static_cast<std::size_t>(label)] += 20.0;
      first += logits.shape().back();
    }
    return changed;
  }));
  context.label_smoothing = 0.0;
  const CheckResult result = initial_loss(context);
  CHECK(result.status == CheckStatus::failed);
  CHECK(result.details.ends_with(", ln(9) is 2.197, tolerance 1.5"));
}

TEST_CASE("initial_loss is skipped for a trained model, whose loss is printed") {
  CheckContext context = tiny_context(scaled_by(0.0));
  context.label_smoothing = 0.0;
  context.trained = true;
  const CheckResult result = initial_loss(context);
  CHECK(result.status == CheckStatus::skipped);
  CHECK(result.details == "the model is trained; its loss is 2.197");
}

TEST_CASE("overfit_batch fails for a model that cannot distinguish its inputs") {
  const CheckResult result = overfit_batch(tiny_context([](CheckedModel& model) {
    model.embed = [whole = model.embed](const NetworkInput& input,
                                        const Mode& mode) -> TokenVectors {
      const TokenVectors read = whole(input, mode);
      return {.source = scale(read.source, 0.0), .target = scale(read.target, 0.0)};
    };
  }));
  CHECK(result.status == CheckStatus::failed);
  CHECK(contains(result.details, " in 599 steps, expected less than 0.05"));
}

TEST_CASE("overfit_batch is skipped for a model that may be unable to learn, unless it learns") {
  const auto blind = [](CheckedModel& model) {
    model.embed = [whole = model.embed](const NetworkInput& input,
                                        const Mode& mode) -> TokenVectors {
      const TokenVectors read = whole(input, mode);
      return {.source = scale(read.source, 0.0), .target = scale(read.target, 0.0)};
    };
  };
  CheckContext context = tiny_context(blind);
  context.learning_limit = "it is blind";
  const CheckResult result = overfit_batch(context);
  CHECK(result.status == CheckStatus::skipped);
  CHECK(contains(result.details, " in 599 steps: it is blind"));
  context = tiny_context();
  context.learning_limit = "it is blind";
  CHECK(overfit_batch(context).status == CheckStatus::passed);
}

TEST_CASE("parameters_have_gradients fails for a parameter that the loss does not depend on") {
  const CheckResult result = parameters_have_gradients(tiny_context([](CheckedModel& model) {
    model.parameters.push_back({"forgotten", Tensor::zeros({2}, model.dtype()).require_gradient()});
  }));
  CHECK(result.status == CheckStatus::failed);
  CHECK(result.details == "forgotten has no gradient");
}

TEST_CASE("parameters_have_gradients counts the biases of keys, whose gradient is 0, separately") {
  const CheckContext context = tiny_context();
  const std::size_t tensors = context.copy(DType::float64).parameters.size();
  CHECK(parameters_have_gradients(context).details ==
        std::to_string(tensors - 3) + " of " + std::to_string(tensors) +
            " parameters have a gradient; for 3 key biases it is always 0");
}

TEST_CASE("initial_loss is skipped for untrained running averages") {
  CheckContext context = tiny_context(scaled_by(0.0));
  context.label_smoothing = 0.0;
  context.has_running_averages = true;
  const CheckResult result = initial_loss(context);
  CHECK(result.status == CheckStatus::skipped);
  CHECK(result.details == "the running averages of batch norm are untrained; the loss is 2.197");
}

TEST_CASE("overfit_batch expects at least the minimum loss") {
  CheckContext context = tiny_context();
  // Two equal sources, the targets of which differ in their first token.
  const std::vector<Example> pairs = {{{4}, {5}}, {{4}, {6}}};
  context.batch = make_batch(pairs, std::vector<std::size_t>{0, 1});
  const CheckResult result = overfit_batch(context);
  CHECK(result.status == CheckStatus::passed);
  CHECK(contains(result.details, "loss of 2 examples from "));
  CHECK(result.details.ends_with(", the minimum is 0.3466"));  // 2 ln(2) / 4
}

TEST_CASE("parameters_have_gradients fails for a parameter whose gradient is zero") {
  const CheckResult result = parameters_have_gradients(tiny_context([](CheckedModel& model) {
    const Tensor cut = Tensor::zeros({2}, model.dtype()).require_gradient();
    model.parameters.push_back({"cut", cut});
    logits_changed([cut](const Tensor& logits, auto&) { return logits + scale(sum(cut), 0.0); })(
        model);
  }));
  CHECK(result.status == CheckStatus::failed);
  CHECK(
      result.details.starts_with("the gradient of cut is at most 0.0e+00, the largest of all is "));
}

}  // namespace
}  // namespace tapestry
