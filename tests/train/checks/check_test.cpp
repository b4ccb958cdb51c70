#include "train/checks/check.h"

#include <doctest/doctest.h>

#include <limits>
#include <new>
#include <stdexcept>

#include "autograd/ops/elementwise.h"
#include "tests/train/checks/context.h"

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

TEST_CASE("a small model with all other options passes all checks, in float64") {
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

TEST_CASE("an exception fails a check with its message, except for a lack of memory") {
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
