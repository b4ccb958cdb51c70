// SPDX-License-Identifier: BSD-3-Clause
#include "train/checks/check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>

#include "autograd/ops/elementwise.h"
#include "tests/train/checks/context.h"
#include "tests/train/own_loss.h"
#include "train/checks/one_step.h"

namespace tapestry {
namespace {

using test::tiny_context;

void check_all_pass(const Config& config) {
  const CheckContext context = tiny_context({}, config);
  for (const Check& check : all_checks()) {
    const CheckResult result = run_check(check, context);
    CAPTURE(check.name);
    CAPTURE(result.details);
    CHECK(result.status == CheckStatus::passed);
  }
}

TEST_CASE("a small model passes all checks") { check_all_pass(test::tiny_config()); }

TEST_CASE("a small float64 model with many non-default options passes all checks") {
  Config config = test::tiny_config();
  config.model.norm = NormPlacement::post;
  config.model.activation = Activation::gelu;
  config.model.positions = PositionKind::learned;
  config.model.tie_embeddings = TiedEmbeddings::all;
  config.train.dtype = DType::float64;
  check_all_pass(config);
}

TEST_CASE("a model whose logits are NaN fails all checks") {
  const CheckContext context = tiny_context(test::logits_changed([](const Tensor& logits, auto&) {
    return scale(logits, std::numeric_limits<double>::quiet_NaN());
  }));
  for (const Check& check : all_checks()) {
    CAPTURE(check.name);
    CHECK(run_check(check, context).status == CheckStatus::failed);
  }
}

/// tiny_context() with this loss of the network.
CheckContext context_with_loss(const test::OwnLoss& loss) {
  CheckContext context = tiny_context();
  const Config config = test::tiny_config();
  const NetworkSizes sizes = network_sizes(config, load_corpus(config.data));
  context.copy = [=](DType dtype) {
    return checked_model(std::make_shared<Model>(
        test::with_loss(network_maker(config, sizes), loss), dtype, config.train.seed));
  };
  return context;
}

TEST_CASE("checks use the loss of the network") {
  const CheckContext large = context_with_loss(test::loss_times_7);
  const double seven = compute_loss(large.copy(DType::float64), large.batch, {}) /
                       compute_loss(tiny_context().copy(DType::float64), large.batch, {});
  CHECK(seven == doctest::Approx(7.0));
  CHECK(initial_loss(large).status == CheckStatus::passed);  // checks the cross entropy

  const CheckContext without_normalizer = context_with_loss(
      [](const Network& network, const Tensor& features, const Ids& labels, auto options) {
        options.normalizer = 0;
        return network.loss(features, labels, options);
      });
  CHECK(gradient_accumulation(without_normalizer).status == CheckStatus::failed);

  const CheckContext all_labels = context_with_loss(
      [](const Network& network, const Tensor& features, const Ids& labels, auto options) {
        Ids counted = labels;
        for (std::int32_t& id : counted) id = std::max(id, 0);
        options.ignored_id = CrossEntropyOptions{}.ignored_id;
        return network.loss(features, counted, options);
      });
  CHECK(padding(all_labels).status == CheckStatus::failed);
}

TEST_CASE("an exception other than std::bad_alloc fails a check with its message") {
  CheckContext context = tiny_context();
  context.copy = [](DType) -> CheckedModel { throw std::runtime_error("linear: no such shape"); };
  for (const Check& check : all_checks()) {
    const CheckResult result = run_check(check, context);
    CHECK(result.status == CheckStatus::failed);
    CHECK(result.details == "linear: no such shape");
  }
  context.copy = [](DType) -> CheckedModel { throw std::bad_alloc(); };
  for (const Check& check : all_checks()) {
    CHECK_THROWS_AS(run_check(check, context), std::bad_alloc);
  }
}

}  // namespace
}  // namespace tapestry
