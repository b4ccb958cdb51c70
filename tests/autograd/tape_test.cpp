#include "autograd/tape.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "autograd/error.h"
#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

Tensor leaf(double value) {
  Tensor x = Tensor::scalar(value, DType::float64);
  return x.require_gradient();
}

Tensor leaf(const Shape& shape, double value) {
  Tensor x = Tensor::full(shape, value, DType::float64);
  return x.require_gradient();
}

/// Passes x on, with a gradient of 3 dy, which it computes in the memory of dy.
struct Tripled {
  static constexpr const char* name = "tripled";
  bool by_view;
  Tensor forward(const Tensor& x) { return x.copied(DType::float64); }
  void backward(const Tensor& dy, Gradient dx) const {
    Tensor handle = by_view ? dy.viewed_as(dy.shape()) : dy;
    for (double& g : handle.mutable_values<double>()) g *= 3.0;
    dx.add(dy);
  }
};

}  // namespace

TEST_CASE("nothing is recorded without a tape") {
  const Tensor x = leaf(3.0);
  CHECK(execution_context().tape == nullptr);
  CHECK_FALSE(is_recorded(x));
  CHECK_FALSE(square(x).requires_gradient());
}

TEST_CASE("a tape records exactly the operations on tensors that require a gradient") {
  const Tensor x = leaf(3.0);
  const Tensor constant = Tensor::scalar(2.0, DType::float64);
  const Tape tape;
  CHECK(execution_context().tape == &tape);
  const Tensor y = mul(x, constant);
  CHECK(y.requires_gradient());
  CHECK(tape.size() == 1);
  CHECK_FALSE(square(constant).requires_gradient());
  CHECK(tape.size() == 1);
}

TEST_CASE("backward of an operation cannot write to the caller's dL/dy, by a tensor or a view") {
  for (const bool by_view : {false, true}) {
    const Tensor x = leaf({2}, 1.0);
    const Tensor weights = Tensor::from({0.5, 2.0}, DType::float64);
    Tape tape;
    const Tensor y = apply(Tripled{by_view}, x);
    CHECK_THROWS_WITH_AS(tape.backward(y, weights),
                         doctest::Contains("tripled: backward writes to dL/dy"), ValueError);
    CHECK(values_of(weights) == std::vector<double>{0.5, 2.0});
  }
}

TEST_CASE("a gradient that shares its memory with dL/dy remains writable for its owner") {
  Tensor x = leaf({2}, 1.0);
  Tape tape;
  tape.backward(scale(x, 2.0), Tensor::from({0.5, 2.0}, DType::float64));
  Tensor gradient = x.gradient();
  gradient.mutable_values<double>()[0] = 7.0;
  CHECK(values_of(x.gradient()) == std::vector<double>{7.0, 4.0});
}

TEST_CASE("a tape that detects writes to dL/dy accepts right operations") {
  const Tensor x = leaf({2}, 3.0);
  Tape tape;
  tape.detect_writes_to_dy();
  tape.backward(square(x) + x, Tensor::from({0.5, 2.0}, DType::float64));
  CHECK(values_of(x.gradient()) == std::vector<double>{3.5, 14.0});
}

TEST_CASE("a tensor used more than once gets the sum of its contributions") {
  const Tensor x = leaf(3.0);
  Tape tape;
  tape.backward(x * x + x);
  check_values(x.gradient(), {7.0});
  CHECK(tape.size() == 0);
}

TEST_CASE("an intermediate result used more than once passes on the sum of its gradients") {
  const Tensor x = leaf(2.0);
  Tape tape;
  const Tensor y = square(x);
  tape.backward(y * y + y);  // x^4 + x^2
  check_values(x.gradient(), {36.0});
}

TEST_CASE("a leaf that only an unreached branch uses has no gradient") {
  const Tensor x = leaf(3.0);
  const Tensor other = leaf(5.0);
  Tape tape;
  const Tensor unused = square(other) * x;
  tape.backward(square(x));
  check_values(x.gradient(), {6.0});
  CHECK_FALSE(other.gradient().defined());
  CHECK_FALSE(unused.gradient().defined());
}

TEST_CASE("an input that needs no gradient gets none") {
  const Tensor x = leaf(3.0);
  const Tensor constant = Tensor::scalar(2.0, DType::float64);
  Tape tape;
  tape.backward(x * constant);
  check_values(x.gradient(), {2.0});
  CHECK_FALSE(constant.gradient().defined());
}

TEST_CASE("backward may start at an intermediate result") {
  const Tensor x = leaf(3.0);
  Tape tape;
  const Tensor y = square(x);
  const Tensor z = square(y);
  tape.backward(y);
  check_values(x.gradient(), {6.0});
  CHECK_FALSE(z.gradient().defined());
}

TEST_CASE("backward of an output of any shape takes its dL/dy") {
  const Tensor x = Tensor::from({2}, {3.0, 5.0}, DType::float64).require_gradient();
  Tape tape;
  tape.backward(square(x), Tensor::from({2}, {1.0, -2.0}, DType::float64));
  check_values(x.gradient(), {6.0, -20.0});
}

TEST_CASE("a loss of one element may have any rank") {
  const Tensor x = leaf({1, 1}, 3.0);
  Tape tape;
  tape.backward(square(x));
  check_values(x.gradient(), {6.0});
}

TEST_CASE("a leaf is its own derivative") {
  const Tensor x = leaf(3.0);
  Tape tape;
  tape.backward(x);
  check_values(x.gradient(), {1.0});
}

TEST_CASE("gradients accumulate over tapes until they are cleared") {
  Tensor x = leaf(3.0);
  const auto step = [&] {
    Tape tape;
    tape.backward(square(x));
  };
  step();
  step();
  check_values(x.gradient(), {12.0});
  x.clear_gradient();
  CHECK_FALSE(x.gradient().defined());
  step();
  check_values(x.gradient(), {6.0});
}

TEST_CASE("gradients of intermediate results do not survive backward") {
  const Tensor x = leaf(3.0);
  Tape tape;
  const Tensor y = square(x);
  tape.backward(square(y));
  CHECK(y.requires_gradient());
  CHECK_FALSE(y.gradient().defined());
}

TEST_CASE("backward refuses a loss with more than one element") {
  const Tensor x = leaf({2, 3}, 1.0);
  Tape tape;
  const Tensor y = square(x);
  CHECK_THROWS_WITH_AS(tape.backward(y),
                       "backward: the loss has shape (2, 3), expected one element", ShapeError);
  CHECK(tape.size() == 1);
}

TEST_CASE("backward refuses dL/dy of another shape or type") {
  const Tensor x = leaf({2}, 1.0);
  Tape tape;
  const Tensor y = square(x);
  CHECK_THROWS_WITH_AS(tape.backward(y, Tensor::zeros({3}, DType::float64)),
                       "backward: dL/dy has shape (3), expected (2) as y", ShapeError);
  CHECK_THROWS_WITH_AS(tape.backward(y, Tensor::zeros({2}, DType::float32)),
                       "backward: operands are float64 and float32, expected one element type",
                       DTypeError);
}

TEST_CASE("backward refuses a loss that depends on no tensor that requires a gradient") {
  const char* message =
      "backward: the output depends on nothing that requires a gradient, or was computed while no "
      "tape was alive on this thread";
  const Tensor computed_before = square(leaf(3.0));
  Tape tape;
  const Tensor constant = square(Tensor::scalar(2.0, DType::float64));
  CHECK_THROWS_WITH_AS(tape.backward(constant), message, ValueError);
  CHECK_THROWS_WITH_AS(tape.backward(computed_before), message, ValueError);
}

TEST_CASE("backward refuses a loss of another tape, a tape that is gone and a second backward") {
  const Tensor x = leaf(3.0);
  Tape tape;
  const Tensor y = square(x);
  Tensor inner_result;
  {
    Tape inner;
    inner_result = square(x);
    const char* of_another =
        "backward: the output was recorded by another tape, which is alive: call backward of that "
        "one; of several tapes on a thread the last one records";
    CHECK_THROWS_WITH_AS(tape.backward(inner_result), of_another, ValueError);
    CHECK_THROWS_WITH_AS(inner.backward(y), of_another, ValueError);
  }
  CHECK_THROWS_WITH_AS(tape.backward(inner_result),
                       "backward: the output was recorded by a tape that is gone: compute the loss "
                       "again, and call backward of its tape while that is alive",
                       ValueError);
  const Tensor also = x * y;
  tape.backward(y);
  const char* used =
      "backward: an earlier backward has used up what the output was computed from: add the losses "
      "and call backward once, or compute the loss again";
  CHECK_THROWS_WITH_AS(tape.backward(y), used, ValueError);
  CHECK_THROWS_WITH_AS(tape.backward(also), used, ValueError);
  {
    Tape other;
    CHECK_THROWS_WITH_AS(other.backward(y), used, ValueError);
  }
  check_values(x.gradient(), {6.0});
}

TEST_CASE("a tape records and goes backward again after a backward") {
  const Tensor x = leaf(3.0);
  Tape tape;
  tape.backward(square(x));
  tape.backward(5.0 * x);
  check_values(x.gradient(), {11.0});
}

TEST_CASE("nested tapes: only the innermost records, then the outer one again") {
  const Tensor x = leaf(3.0);
  Tape outer;
  const Tensor y = square(x);
  {
    Tape inner;
    inner.backward(x * Tensor::scalar(10.0, DType::float64));
    CHECK(outer.size() == 1);
  }
  CHECK(execution_context().tape == &outer);
  const Tensor z = square(y);
  CHECK(outer.size() == 2);
  outer.backward(z);
  check_values(x.gradient(), {10.0 + 108.0});
}

TEST_CASE("nested tapes: gradients of an inner tape pass through outer results to their leaves") {
  const Tensor x = leaf(3.0);
  Tape outer;
  const Tensor y = square(x);
  {
    Tape inner;
    inner.backward(Tensor::scalar(5.0, DType::float64) * y);
  }
  check_values(y.gradient(), {5.0});
  outer.backward(y);  // adds 1
  check_values(x.gradient(), {6.0 * 6.0});
}

TEST_CASE("under NoGrad nothing is recorded, except on a tape that begins inside") {
  const Tensor x = leaf(3.0);
  Tape tape;
  {
    const NoGrad no_grad;
    CHECK(execution_context().tape == nullptr);
    CHECK_FALSE(square(x).requires_gradient());
    {
      Tape inner;
      inner.backward(square(x));
      check_values(x.gradient(), {6.0});
    }
    CHECK(execution_context().tape == nullptr);
  }
  CHECK(execution_context().tape == &tape);
  CHECK(tape.size() == 0);
}

TEST_CASE("NoGrad nests, and the tape records again when the outermost guard ends") {
  const Tensor x = leaf(3.0);
  Tape tape;
  const Tensor before = square(x);
  {
    const NoGrad outer;
    {
      const NoGrad inner;
      CHECK_FALSE(square(x).requires_gradient());
    }
    CHECK_FALSE(square(before).requires_gradient());
  }
  tape.backward(before * x);
  check_values(x.gradient(), {27.0});
}

TEST_CASE("results computed under NoGrad are constants, also if an exception ended it") {
  const Tensor x = leaf(3.0);
  Tape tape;
  Tensor constant;
  try {
    const NoGrad no_grad;
    constant = square(x);
    throw std::runtime_error("stop");
  } catch (const std::runtime_error&) {
  }
  tape.backward(constant * x);
  check_values(x.gradient(), {9.0});
}

TEST_CASE("NoGrad without a tape, and on another thread, changes nothing") {
  {
    const NoGrad no_grad;
    CHECK(execution_context().tape == nullptr);
  }
  const Tensor x = leaf(3.0);
  Tape tape;
  std::thread([] { const NoGrad no_grad; }).join();
  std::thread([] {
    Tape own;
    const Tensor w = leaf(2.0);
    own.backward(square(w));
    CHECK(w.gradient().item() == 4.0);
  }).join();
  tape.backward(square(x));
  check_values(x.gradient(), {6.0});
}

TEST_CASE("nothing that runs inside backward is recorded") {
  const Tensor x = leaf(3.0);
  Tape tape;
  tape.backward(square(x) / leaf(2.0));
  CHECK(tape.size() == 0);
  CHECK_FALSE(x.gradient().requires_gradient());
}

TEST_CASE("a result of a used-up tape has values, but backward through it is refused") {
  const Tensor x = leaf(3.0);
  Tape tape;
  const Tensor y = square(x);
  tape.backward(y);
  const Tensor z = y * x;
  CHECK(z.item() == 27.0);
  CHECK_THROWS_AS(tape.backward(z), ValueError);
}

namespace {

/// Breaks the rule that forward makes a tensor of its own.
struct Same {
  static constexpr const char* name = "same";
  Tensor forward(const Tensor& input) { return input; }
  void backward(const Tensor& dy, Gradient dx) const { dx.add(dy); }
};

}  // namespace

TEST_CASE("an operation whose forward returns its input is refused") {
  const Tensor x = leaf(3.0);
  const Tape tape;
  CHECK_THROWS_AS(apply(Same{}, x), ValueError);
}

TEST_CASE("a record knows its operation and the layer in which it ran") {
  struct Named final : detail::Record {
    using Record::Record;
    void backward(const Tensor&) const override {}
    Slots inputs() const override { return {}; }
  };
  const Named record("named", nullptr);
  CHECK(std::string(record.operation()) == "named");
  CHECK(record.layer_path().empty());
}

/// A leaf that a tape reports, with the gradient that it has then.
struct Report {
  const GradientSlot* leaf;
  double gradient;
};

/// What a tape reports during backward of y.
std::vector<Report> complete_gradients(Tape& tape, const Tensor& y) {
  std::vector<Report> reports;
  tape.on_gradient_complete([&](const GradientSlot& leaf) {
    reports.push_back({&leaf, leaf.filled() ? leaf.value().item() : 0.0});
  });
  tape.backward(y);
  return reports;
}

TEST_CASE("backward reports a leaf as soon as its gradient is complete") {
  const Tensor constant = Tensor::scalar(1.0, DType::float64);
  const Tensor first = leaf(2.0), second = leaf(3.0), tied = leaf(5.0);
  Tape tape;
  const Tensor hidden = mul(mul(constant, tied), first);
  const auto reports = complete_gradients(tape, mul(mul(hidden, second), tied));
  REQUIRE(reports.size() == 3);
  CHECK(reports[0].leaf == second.slot().get());
  CHECK(reports[0].gradient == 50.0);
  CHECK(reports[1].leaf == first.slot().get());
  CHECK(reports[1].gradient == 75.0);
  CHECK(reports[2].leaf == tied.slot().get());
  CHECK(reports[2].gradient == 60.0);
}

TEST_CASE("backward reports a leaf of an unreached branch without a gradient, an unused one not") {
  const Tensor x = leaf(2.0), unreached = leaf(3.0), unused = leaf(4.0);
  Tape tape;
  const Tensor y = square(x);
  square(unreached);
  const auto reports = complete_gradients(tape, y);
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].leaf == unreached.slot().get());
  CHECK(reports[0].gradient == 0.0);
  CHECK(reports[1].leaf == x.slot().get());
  CHECK(reports[1].gradient == 4.0);
}

TEST_CASE("backward detects operands that were changed after the operation") {
  Tensor x = leaf(3.0);
  {
    Tape tape;
    const Tensor y = square(x);
    x.mutable_values<double>()[0] = 5.0;
    CHECK_THROWS_WITH_AS(
        tape.backward(y),
        "square: backward: the values of an input changed after the operation ran "
        "(mutable_values), so gradients would be wrong; change values before the forward pass or "
        "after backward",
        ValueError);
  }
  x.clear_gradient();
  Tape tape;
  x.mutable_values<double>()[0] = 2.0;  // before the operation
  const Tensor y = square(x);
  CHECK(x.values<double>()[0] == 2.0);  // reading changes nothing
  tape.backward(y);
  x.mutable_values<double>()[0] = 1.0;  // after backward
  check_values(x.gradient(), {4.0});
}
