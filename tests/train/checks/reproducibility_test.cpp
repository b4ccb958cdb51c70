#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "autograd/kernels/parallel.h"
#include "autograd/ops/elementwise.h"
#include "tests/support/threads.h"
#include "tests/train/checks/context.h"
#include "train/checks/check.h"
#include "train/checks/one_step.h"

/// The checks of reproducibility, on models that are wrong.
namespace tapestry {
namespace {

using test::contains;
using test::logits_changed;
using test::tiny_context;

TEST_CASE("threads fails for a model that depends on their number, and restores the number") {
  const std::size_t before = kernels::num_threads();
  const auto depending = logits_changed([](const Tensor& logits, auto&) {
    return scale(logits, 1.0 + 1e-6 * static_cast<double>(kernels::num_threads()));
  });
  const CheckResult result = threads(tiny_context(depending));
  CHECK(result.status == CheckStatus::failed);
  CHECK(result.details.starts_with("on 1 thread, then on 2: loss"));
  CHECK(kernels::num_threads() == before);
}

TEST_CASE("gradient_accumulation fails for a loss that is a mean over each half batch") {
  const CheckResult result = gradient_accumulation(tiny_context([](CheckedModel& model) {
    model.loss = [whole = model.loss](const Tensor& features, const Ids& labels,
                                      CrossEntropyOptions options) {
      options.normalizer = 0;
      return whole(features, labels, options);
    };
  }));
  CHECK(result.status == CheckStatus::failed);
  const std::string sum = "the losses of the two half batches add up to ";
  const std::string whole = ", the loss of the whole is ";
  REQUIRE(result.details.starts_with(sum));
  const CheckContext sound = tiny_context();
  const double loss = compute_loss(sound.copy(DType::float64), sound.batch,
                                   {.label_smoothing = sound.label_smoothing});
  CHECK(std::stod(result.details.substr(result.details.find(whole) + whole.size())) ==
        doctest::Approx(loss).epsilon(1e-9));
  // Of halves of about as many tokens each.
  CHECK(std::stod(result.details.substr(sum.size())) == doctest::Approx(2 * loss).epsilon(0.2));
}

/// Clears the gradients whenever a new loss is computed, as `=` instead of `+=` would.
void forget(CheckedModel& model) {
  model.loss = [parameters = model.parameters, whole = model.loss](
                   const Tensor& features, const Ids& labels, const CrossEntropyOptions& options) {
    for (NamedTensor parameter : parameters) parameter.tensor.clear_gradient();
    return whole(features, labels, options);
  };
}

TEST_CASE("gradient_accumulation fails if the second half replaces the gradients of the first") {
  const CheckResult result = gradient_accumulation(tiny_context(forget));
  CHECK(result.status == CheckStatus::failed);
  CHECK(contains(result.details, "differ from those of the whole batch by "));
}

TEST_CASE("gradient_accumulation prints the sizes of both halves, the larger one second") {
  CheckContext context = tiny_context();
  context.batch = select_rows(context.batch, 0, 5);
  const CheckResult result = gradient_accumulation(context);
  CHECK(result.status == CheckStatus::passed);
  CHECK(result.details.starts_with("gradients of 2 + 3 examples add up to those of 5 (largest "));
}

TEST_CASE("threads prints the compared values and the numbers of threads") {
  CheckContext context = tiny_context();
  context.large_batch = select_rows(context.large_batch, 0, 7);
  const test::Threads five(5);
  const CheckResult result = threads(context);
  CHECK(result.status == CheckStatus::passed);
  const std::size_t tensors = context.copy(DType::float32).parameters.size();
  CHECK(result.details == "logits, loss and " + std::to_string(tensors) +
                              " gradients have the same bits on 1, 2, 3, 5 threads (float32, 7 "
                              "examples)");
}

TEST_CASE("gradient_accumulation is skipped for one sentence") {
  CheckContext context = tiny_context();
  context.batch = select_rows(context.batch, 0, 1);
  CHECK(gradient_accumulation(context).status == CheckStatus::skipped);
}

TEST_CASE("repeated_step fails for a model that keeps state") {
  const auto calls = std::make_shared<double>(0.0);
  const auto remembering = logits_changed(
      [calls](const Tensor& logits, auto&) { return scale(logits, 1.0 + 1e-12 * ++*calls); });
  const CheckResult result = repeated_step(tiny_context(remembering));
  CHECK(result.status == CheckStatus::failed);
  CHECK(result.details.starts_with("repeated: l"));
}

TEST_CASE("repeated_step fails if gradients are not added up") {
  const CheckResult result = repeated_step(tiny_context(forget));
  CHECK(result.status == CheckStatus::failed);
  CHECK(contains(result.details,
                 " that were not cleared differ from twice the first ones by 5.0e-01 (relative)"));
}

}  // namespace
}  // namespace tapestry
