#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "autograd/ops/linear.h"
#include "autograd/ops/losses.h"
#include "autograd/tape.h"
#include "optim/optimizer.h"
#include "tests/optim/leaves.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr std::int32_t ignored = -1;
constexpr std::size_t features = 3, classes = 4;

/// Examples of a linear classifier.
struct Examples {
  std::vector<double> x;  // (rows, features)
  std::vector<std::int32_t> targets;

  Examples part(std::size_t first, std::size_t rows) const {
    const auto at = [](const auto& all, std::size_t i) {
      return all.begin() + static_cast<std::ptrdiff_t>(i);
    };
    return {{at(x, first * features), at(x, (first + rows) * features)},
            {at(targets, first), at(targets, first + rows)}};
  }
};

const Examples whole{.x = uneven(6 * features, 1), .targets = {0, 3, 1, ignored, 2, ignored}};

/// A linear classifier with its optimizer.
struct Training {
  Training(OptimizerKind kind, DType dtype)
      : parameters{leaf("weight", {classes, features}, uneven(classes * features, 2), dtype),
                   leaf("bias", {classes}, uneven(classes, 3), dtype)},
        optimizer(make_optimizer(eventful_options(kind), parameters)) {}

  void backward(const Examples& examples, const CrossEntropyOptions& options) const {
    const std::size_t rows = examples.targets.size();
    const Tensor x = Tensor::from({rows, features}, examples.x, parameters[0].tensor.dtype());
    Tape tape;
    const Tensor logits = linear(x, parameters[0].tensor, parameters[1].tensor);
    tape.backward(cross_entropy(logits, Ids(Shape{rows}, examples.targets), options).mean);
  }

  std::vector<NamedTensor> parameters;
  std::unique_ptr<Optimizer> optimizer;
};

void check_equal(const Training& a, const Training& b) {
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    const Tensor& expected = b.parameters[i].tensor;
    check_values(a.parameters[i].tensor, values_of(expected), tolerance(expected.dtype()));
  }
}

}  // namespace

TEST_CASE("two half batches with scale 1/2 give the step of the whole batch, clipped or not") {
  for (const OptimizerKind kind : optimizer_kinds) {
    for (const DType dtype : dtypes) {
      for (const double max_norm : {0.0, 0.01}) {
        const Training at_once(kind, dtype), in_halves(kind, dtype);
        const Examples all = whole.part(0, 2);
        at_once.backward(all, {});
        in_halves.backward(all.part(0, 1), {});
        in_halves.backward(all.part(1, 1), {});
        const double norm = global_gradient_norm(at_once.parameters);
        CHECK(global_gradient_norm(in_halves.parameters) / 2 ==
              doctest::Approx(norm).epsilon(tolerance(dtype)));
        CHECK(norm > 0.01);
        at_once.optimizer->step(0.1, clip_factor(norm, max_norm));
        in_halves.optimizer->step(
            0.1, clip_factor(global_gradient_norm(in_halves.parameters) / 2, max_norm) / 2);
        check_equal(in_halves, at_once);
      }
    }
  }
}

TEST_CASE("with a normalizer, parts with different numbers of targets give the step of the whole") {
  for (const OptimizerKind kind : optimizer_kinds) {
    for (const DType dtype : dtypes) {
      const Training at_once(kind, dtype), in_parts(kind, dtype);
      at_once.backward(whole, {.ignored_id = ignored});
      for (const std::size_t first : {0, 3}) {  // with three targets and one
        in_parts.backward(whole.part(first, 3), {.ignored_id = ignored, .normalizer = 4});
      }
      at_once.optimizer->step(0.1);
      in_parts.optimizer->step(0.1);
      check_equal(in_parts, at_once);
    }
  }
}
