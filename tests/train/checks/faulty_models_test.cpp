// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "autograd/ops/comparison.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "tests/support/threads.h"
#include "tests/train/checks/context.h"
#include "train/checks/check.h"
#include "train/checks/one_step.h"
#include "train/inference/batch_tensors.h"

/// All checks on faulty models, and their output for correct models.
namespace tapestry {
namespace {

using test::Change;
using test::contains;
using test::logits_changed;
using test::tiny_context;

Change scaled_by(double factor) {
  return logits_changed([factor](const Tensor& logits, auto&) { return scale(logits, factor); });
}

/// Makes every logit depend slightly on all vectors of a side.
Change sees_all_of(Tensor TokenVectors::*side) {
  return logits_changed([side](const Tensor& logits, const TokenVectors& read) {
    return logits + scale(sum(read.*side), 1e-6);
  });
}

/// Drops the gradients of one side.
Change deaf_to(Tensor TokenVectors::*side) {
  return [side](CheckedModel& model) {
    model.features = [side, whole = model.features](const TokenVectors& read,
                                                    const NetworkInput& input, const Mode& mode) {
      TokenVectors kept = read;
      kept.*side = (kept.*side).detach().clone();
      return whole(kept, input, mode);
    };
  };
}

/// Changes the token vectors.
Change embeds(const std::function<TokenVectors(const TokenVectors&)>& change) {
  return [change](CheckedModel& model) {
    model.embed = [change, whole = model.embed](const NetworkInput& input, const Mode& mode) {
      return change(whole(input, mode));
    };
  };
}

const Change blind = embeds([](const TokenVectors& read) -> TokenVectors {
  return {.source = scale(read.source, 0.0), .target = scale(read.target, 0.0)};
});

/// Compares two values of a vector: an equal offset of all values would have no effect.
const Change compares_padding = logits_changed([](const Tensor& logits, const TokenVectors& read) {
  return logits + sum(select(read.source, 2, 0) < select(read.source, 2, 1));
});

const Change counts_columns = logits_changed([](const Tensor& logits, const TokenVectors& read) {
  return scale(logits, 1.0 + 1e-6 * static_cast<double>(read.source.shape()[1]));
});

/// Computes the loss with different labels or options.
Change loss_with(const std::function<void(Ids& labels, CrossEntropyOptions& options)>& change) {
  return [change](CheckedModel& model) {
    model.loss = [change, whole = model.loss](const Tensor& features, const Ids& labels,
                                              CrossEntropyOptions options) {
      Ids changed = labels;
      change(changed, options);
      return whole(features, changed, options);
    };
  };
}

const Change counts_padding = loss_with([](Ids& labels, CrossEntropyOptions& options) {
  for (std::int32_t& id : labels) id = std::max(id, 0);
  options = {};
});

const Change is_a_mean_of_each_half =
    loss_with([](Ids&, CrossEntropyOptions& options) { options.normalizer = 0; });

const Change knows_the_first_row = logits_changed([](const Tensor& logits, auto&) {
  Tensor number = Tensor::zeros({logits.shape()[0], 1, 1}, logits.dtype());
  dispatch(logits.dtype(),
           [&]<class T>() { number.mutable_values<T>()[0] = static_cast<T>(1e-6); });
  return logits + number;
});

const Change counts_threads = logits_changed([](const Tensor& logits, auto&) {
  return scale(logits, 1.0 + 1e-6 * static_cast<double>(kernels::num_threads()));
});

const Change counts_calls =
    logits_changed([calls = std::make_shared<double>(0.0)](const Tensor& logits, auto&) {
      return scale(logits, 1.0 + 1e-12 * ++*calls);
    });

/// Clears the gradients whenever a new loss is computed, like `=` instead of `+=`.
void forgets_gradients(CheckedModel& model) {
  model.loss = [parameters = model.parameters, whole = model.loss](
                   const Tensor& features, const Ids& labels, const CrossEntropyOptions& options) {
    for (NamedTensor parameter : parameters) parameter.tensor.zero_grad();
    return whole(features, labels, options);
  };
}

void is_larger_in_float32(CheckedModel& model) {
  if (model.dtype() == DType::float32) scaled_by(1.01)(model);
}

void lacks_a_gradient_in_float32(CheckedModel& model) {
  if (model.dtype() == DType::float64) return;
  embeds([](const TokenVectors& read) -> TokenVectors {
    return {.source = read.source.detach().to(DType::float32), .target = read.target};
  })(model);
}

void forgets_a_parameter(CheckedModel& model) {
  model.parameters.push_back(
      {"forgotten", Tensor::zeros({2}, model.dtype()).set_requires_grad(true)});
}

void cuts_a_parameter(CheckedModel& model) {
  const Tensor cut = Tensor::zeros({2}, model.dtype()).set_requires_grad(true);
  model.parameters.push_back({"cut", cut});
  logits_changed([cut](const Tensor& logits, auto&) { return logits + scale(sum(cut), 0.0); })(
      model);
}

TEST_CASE("each check fails for models that lack its property, and reports the place") {
  const struct {
    CheckResult (*check)(const CheckContext&);
    Change change;
    std::string begin, end{};  ///< the details begin and end with these texts
  } rows[] = {
      {causality, sees_all_of(&TokenVectors::target),
       "logits of example 1 at token 1 depend on target input 2 by ", ", expected exactly 0"},
      {causality, sees_all_of(&TokenVectors::source),
       "logits of example 1 at token 1 depend on source input "},
      {causality, deaf_to(&TokenVectors::target), "logits of example 1 at token 1 depend on no ",
       "target input up to 1"},
      {causality, deaf_to(&TokenVectors::source),
       "logits of example 1 at token 1 depend on no source input up to "},
      {padding, sees_all_of(&TokenVectors::source), "logits of example 1 at token 1 went from ",
       " with different values in the padding"},
      {padding, sees_all_of(&TokenVectors::target), "logits of example 1 at token 1 went from ",
       " with different values in the padding"},
      {padding, compares_padding, "logits of ", " with different values in the padding"},
      {padding, counts_columns, "logits of ",
       " with 3 more columns of source padding and 3 of target padding"},
      {padding, counts_padding, "loss went from ", " with more padding"},
      {permutation, knows_the_first_row, "logits of example ",
       " with the examples in reverse order"},
      {threads, counts_threads, "on 1 thread, then on 2: loss"},
      {gradient_accumulation, is_a_mean_of_each_half,
       "the losses of the two half batches add up to "},
      {gradient_accumulation, forgets_gradients, "accumulated gradients of "},
      {repeated_step, counts_calls, "repeated: l"},
      {repeated_step, forgets_gradients, "gradients of ",
       "differ from twice the original gradients by 5.0e-01 (relative), tolerance 1e-12"},
      {precision, is_larger_in_float32, "loss ", "tolerance 1e-05 (relative)"},
      {precision, lacks_a_gradient_in_float32,
       "gradients of source_embedding.weight differ by inf (relative)"},
      {initial_loss, scaled_by(10.0), "loss ", ", ln(9) is 2.197, tolerance 1.5"},
      {overfit_batch, blind, "loss of 6 examples from ", " in 599 steps, expected less than 0.05"},
      {parameters_have_gradients, forgets_a_parameter, "forgotten has no gradient"},
      {parameters_have_gradients, cuts_a_parameter,
       "the gradient of cut is at most 0.0e+00, the largest gradient is "},
  };
  for (const auto& row : rows) {
    CAPTURE(row.begin);
    const CheckResult result = row.check(tiny_context(row.change));
    CHECK(result.status == CheckStatus::failed);
    CHECK_MESSAGE(result.details.starts_with(row.begin), result.details);
    CHECK_MESSAGE(result.details.ends_with(row.end), result.details);
  }
}

TEST_CASE("initial_loss fails for a model that reads its labels") {
  const Ids labels = label_ids(tiny_context().batch);
  CheckContext context = tiny_context(logits_changed([&](const Tensor& logits, auto&) {
    Tensor changed = logits.detach().clone();
    const auto values = changed.mutable_values<double>();
    std::size_t first = 0;
    for (const std::int32_t label : labels) {
      if (label != no_label) values[first + static_cast<std::size_t>(label)] += 20.0;
      first += logits.shape().back();
    }
    return changed;
  }));
  context.label_smoothing = 0.0;
  CHECK(initial_loss(context).status == CheckStatus::failed);
}

TEST_CASE("a check is skipped if it has nothing to compare or no expected value") {
  CheckContext one = tiny_context();
  one.batch = select_rows(one.batch, 0, 1);
  one.max_source_length = one.batch.source_length;
  one.max_target_length = one.batch.target_length;
  CHECK(permutation(one).status == CheckStatus::skipped);
  CHECK(gradient_accumulation(one).status == CheckStatus::skipped);
  CHECK(padding(one).status == CheckStatus::skipped);
  one.max_target_length = one.batch.target_length + 2;
  CHECK(contains(padding(one).details, "0 + 2 more columns change the logits by 0"));

  CheckContext context = tiny_context(scaled_by(0.0));
  context.label_smoothing = 0.0;
  context.has_running_averages = true;
  CHECK(initial_loss(context).status == CheckStatus::skipped);
  CHECK(initial_loss(context).details ==
        "the running averages of batch norm are untrained; the loss is 2.197");
  context.trained = true;
  CHECK(initial_loss(context).status == CheckStatus::skipped);
  CHECK(initial_loss(context).details == "the model is trained; its loss is 2.197");

  context = tiny_context(blind);
  context.learning_limit = "it is blind";
  CHECK(overfit_batch(context).status == CheckStatus::skipped);
  CHECK(contains(overfit_batch(context).details, " in 599 steps: it is blind"));
  context = tiny_context();
  context.learning_limit = "it is blind";  // but the model learns
  CHECK(overfit_batch(context).status == CheckStatus::passed);
}

/// Predicts each token from the `read` tokens before it, without the source.
Change reads_last_tokens(std::size_t read) {
  return [read](CheckedModel& model) {
    model.features = [read](const TokenVectors& vectors, const NetworkInput&, const Mode&) {
      Tensor sum = vectors.target;
      const std::size_t length = sum.shape()[1];
      for (std::size_t i = 1; i < read && i < length; ++i) {
        Shape padding = sum.shape();
        padding[1] = i;
        const Tensor earlier = slice(vectors.target, 1, 0, length - i);
        const Tensor shifted = concat({Tensor::zeros(padding, sum.dtype()), earlier}, 1);
        sum = sum + scale(shifted, 1.0 + static_cast<double>(i));
      }
      return sum;
    };
  };
}

TEST_CASE("overfit_batch is inconclusive for a model that reads too few tokens or is too small") {
  for (const std::size_t read : {1, 2}) {
    CAPTURE(read);
    const CheckResult result = overfit_batch(tiny_context(reads_last_tokens(read)));
    CHECK(result.status == CheckStatus::skipped);
    CHECK_MESSAGE(contains(result.details, "the tokens that it reads"), result.details);
  }
  // A model that reads the same tokens and does not learn still fails.
  const CheckResult stuck = overfit_batch(tiny_context([](CheckedModel& model) {
    reads_last_tokens(1)(model);
    model.loss = [whole = model.loss](const Tensor& features, const Ids& labels,
                                      const CrossEntropyOptions& options) {
      const Tensor loss = whole(features, labels, options);
      return scale(loss, 0.0) + loss.detach();
    };
  }));
  CHECK(stuck.status == CheckStatus::failed);

  const CheckResult small = overfit_batch(tiny_context([](CheckedModel& model) {
    blind(model);
    model.parameters.erase(model.parameters.begin() + 1, model.parameters.end());
    model.parameters[0].tensor = Tensor::zeros({2}, model.dtype()).set_requires_grad(true);
    logits_changed([small = model.parameters[0].tensor](const Tensor& logits, auto&) {
      return logits + sum(small);
    })(model);
  }));
  CHECK(small.status == CheckStatus::skipped);
  CHECK_MESSAGE(contains(small.details, "2 parameters for "), small.details);
}

TEST_CASE("checks of independence print the numbers of examples, positions and columns") {
  CheckContext context = tiny_context();
  const auto positions = [&](std::size_t rows, std::size_t padding) {
    return std::to_string(select_rows(context.batch, 0, rows).target_length + padding);
  };
  CHECK(causality(context).details ==
        "d(logits at t)/d(target input after t), and for padding, is exactly 0 (3 examples, " +
            positions(3, 2) + " positions)");
  CHECK(permutation(context).details.starts_with("6 examples in reverse order: logits differ by "));
  context.max_target_length = context.batch.target_length + 1;
  CHECK(padding(context).details.starts_with(
      "values in the padding do not change the logits; 3 + 1 more columns change the logits by "));
  context.batch = select_rows(context.batch, 0, 2);
  context.causal = false;
  CHECK(causality(context).details.starts_with("d(logits)/d(padding) is exactly 0 (2 examples, "));
  // The check appends no more columns than the model has positions.
  context = tiny_context();
  context.max_source_length = context.max_target_length = context.batch.source_length;
  CHECK(contains(padding(context).details, "0 + 0 more columns change the logits by 0"));
}

TEST_CASE("checks of reproducibility print what they compare, and restore the number of threads") {
  CheckContext context = tiny_context();
  context.large_batch = select_rows(context.large_batch, 0, 7);
  context.batch = select_rows(context.batch, 0, 5);
  CHECK(gradient_accumulation(context).details.starts_with(
      "gradients of 2 + 3 examples add up to the gradients of 5 (largest "));
  const test::Threads five(5);
  CHECK(threads(context).details ==
        fmt::format("logits, loss and {} gradients have the same bits on 1, 2, 3, 5 threads "
                    "(float32, 7 examples)",
                    context.copy(DType::float32).parameters.size()));
  CHECK(kernels::num_threads() == 5);
}

TEST_CASE("losses that differ are printed with their values") {
  const CheckContext sound = tiny_context(), halves = tiny_context(is_a_mean_of_each_half);
  const double loss = compute_loss(sound.copy(DType::float64), sound.batch,
                                   {.label_smoothing = sound.label_smoothing});
  const std::string details = gradient_accumulation(halves).details;
  const std::string sum = "the losses of the two half batches add up to ";
  const std::string whole = ", the loss of the whole is ";
  CHECK(std::stod(details.substr(details.find(whole) + whole.size())) ==
        doctest::Approx(loss).epsilon(1e-9));
  // The halves have about the same number of tokens.
  CHECK(std::stod(details.substr(sum.size())) == doctest::Approx(2 * loss).epsilon(0.2));

  for (const double smoothing : {0.0, 0.3}) {
    CheckContext context = tiny_context();
    context.label_smoothing = smoothing;
    const auto loss_in = [&](DType dtype) {
      return compute_loss(context.copy(dtype), context.batch,
                          {.label_smoothing = std::max(smoothing, 0.1)});
    };
    const double exact = loss_in(DType::float64), rounded = loss_in(DType::float32);
    CHECK(precision(context).status == CheckStatus::passed);
    CHECK(precision(context).details.starts_with(
        fmt::format("float32 against float64, relative: loss {:.1e} (tolerance 1e-05)",
                    std::abs(rounded - exact) / exact)));
    context = tiny_context(is_larger_in_float32);
    context.label_smoothing = smoothing;
    CHECK(precision(context).details.starts_with(
        fmt::format("loss {:.9g} in float32, {:.9g} in float64", loss_in(DType::float32), exact)));
  }
}

TEST_CASE("checks of learning start from the cross entropy of the model") {
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
  context.tied_width = 16;
  context.vocabulary = 9;  // the tolerance is 1.5 + ln(1 + exp(4) / 9) = 3.455
  CHECK(initial_loss(context).details.ends_with(", tolerance 3.46"));
  // Two equal sources whose targets differ in the first token.
  const std::vector<Example> pairs = {{{4}, {5}}, {{4}, {6}}};
  context.batch = make_batch(pairs, std::vector<std::size_t>{0, 1});
  CHECK(overfit_batch(context).status == CheckStatus::passed);
  CHECK(overfit_batch(context).details.ends_with(", the minimum is 0.3466"));  // 2 ln(2) / 4

  const std::size_t tensors = tiny_context().copy(DType::float64).parameters.size();
  CHECK(parameters_have_gradients(tiny_context()).details ==
        fmt::format("{} of {} parameters have a gradient; for 3 key biases it is always 0",
                    tensors - 3, tensors));
}

}  // namespace
}  // namespace tapestry
