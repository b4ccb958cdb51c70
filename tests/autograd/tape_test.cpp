// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/tape.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "autograd/error.h"
#include "autograd/execution_context.h"
#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "tests/support/errors.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The identity with a gradient of 3 dy, which it computes in the memory of dy.
struct Tripled {
  static constexpr const char* name = "tripled";
  bool by_view;
  Tensor forward(const Tensor& x) { return x.detach().to(DType::float64); }
  void backward(const Tensor& dy, Gradient dx) const {
    Tensor handle = by_view ? dy.detach() : dy;
    for (double& g : handle.mutable_values<double>()) g *= 3.0;
    dx.add(dy);
  }
};

}  // namespace

TEST_CASE("a tape records an operation if and only if an input requires a gradient") {
  const Tensor x = leaf(3.0);
  CHECK(execution_context().tape == nullptr);
  CHECK_FALSE(is_recorded(x));
  CHECK_FALSE(square(x).requires_grad());
  const Tensor constant = Tensor::scalar(2.0, DType::float64);
  const Tape tape;
  CHECK(execution_context().tape == &tape);
  const Tensor y = mul(x, constant);
  CHECK(y.requires_grad());
  CHECK(tape.size() == 1);
  CHECK_FALSE(square(constant).requires_grad());
  CHECK(tape.size() == 1);
}

TEST_CASE(
    "backward of an operation cannot write to the caller's dL/dy through a tensor or a view") {
  for (const bool by_view : {false, true}) {
    const Tensor x = leaf({2}, 1.0);
    const Tensor weights = Tensor::from({0.5, 2.0}, DType::float64);
    Tape tape;
    const Tensor y = apply(Tripled{by_view}, x);
    check_error<ValueError>("tripled: backward writes to dL/dy",
                            [&] { tape.backward(y, weights); });
    CHECK(values_of(weights) == std::vector<double>{0.5, 2.0});
  }
}

TEST_CASE("the owner of a gradient can write to it even if it shares its memory with dL/dy") {
  Tensor x = leaf({2}, 1.0);
  Tape tape;
  tape.backward(scale(x, 2.0), Tensor::from({0.5, 2.0}, DType::float64));
  Tensor gradient = x.grad();
  gradient.mutable_values<double>()[0] = 7.0;
  CHECK(values_of(x.grad()) == std::vector<double>{7.0, 4.0});
}

TEST_CASE("the gradient of a tensor used more than once is the sum over its uses") {
  const Tensor x = leaf(3.0);
  Tape tape;
  tape.backward(x * x + x);
  check_values(x.grad(), {7.0});
  CHECK(tape.size() == 0);
}

TEST_CASE("a leaf used only by a branch that backward does not reach has no gradient") {
  const Tensor x = leaf(3.0);
  const Tensor other = leaf(5.0);
  Tape tape;
  const Tensor unused = square(other) * x;
  tape.backward(square(x));
  check_values(x.grad(), {6.0});
  CHECK_FALSE(other.grad().defined());
  CHECK_FALSE(unused.grad().defined());
}

TEST_CASE("gradients accumulate over tapes until they are cleared") {
  Tensor x = leaf(3.0);
  const auto step = [&] {
    Tape tape;
    tape.backward(square(x));
  };
  step();
  step();
  check_values(x.grad(), {12.0});
  x.zero_grad();
  CHECK_FALSE(x.grad().defined());
  step();
  check_values(x.grad(), {6.0});
}

TEST_CASE("backward rejects a loss with more than one element") {
  const Tensor x = leaf({2, 3}, 1.0);
  Tape tape;
  const Tensor y = square(x);
  check_error<ShapeError>("backward:|(2, 3)", [&] { tape.backward(y); });
  CHECK(tape.size() == 1);
}

TEST_CASE("backward rejects dL/dy of the wrong shape or type") {
  const Tensor x = leaf({2}, 1.0);
  Tape tape;
  const Tensor y = square(x);
  check_error<ShapeError>("backward:|(3)|(2)",
                          [&] { tape.backward(y, Tensor::zeros({3}, DType::float64)); });
  check_error<DTypeError>("backward:|float64|float32",
                          [&] { tape.backward(y, Tensor::zeros({2}, DType::float32)); });
}

TEST_CASE("backward rejects a loss that depends on no tensor that requires a gradient") {
  const char* words =
      "backward:|does not depend on a tensor that requires a gradient|without a tape";
  const Tensor computed_before = square(leaf(3.0));
  Tape tape;
  const Tensor constant = square(Tensor::scalar(2.0, DType::float64));
  check_error<ValueError>(words, [&] { tape.backward(constant); });
  check_error<ValueError>(words, [&] { tape.backward(computed_before); });
}

TEST_CASE("backward rejects a loss of another tape or of a destroyed tape, and a second call") {
  const Tensor x = leaf(3.0);
  Tape tape;
  const Tensor y = square(x);
  Tensor inner_result;
  {
    Tape inner;
    inner_result = square(x);
    const char* of_another = "backward:|recorded by another tape, which still exists";
    check_error<ValueError>(of_another, [&] { tape.backward(inner_result); });
    check_error<ValueError>(of_another, [&] { inner.backward(y); });
  }
  check_error<ValueError>("backward:|the output was recorded by a tape that has been destroyed",
                          [&] { tape.backward(inner_result); });
  const Tensor also = x * y;
  tape.backward(y);
  const char* used = "backward:|an earlier backward has consumed";
  check_error<ValueError>(used, [&] { tape.backward(y); });
  check_error<ValueError>(used, [&] { tape.backward(also); });
  {
    Tape other;
    check_error<ValueError>(used, [&] { other.backward(y); });
  }
  check_values(x.grad(), {6.0});
}

TEST_CASE("a tape records nothing while a nested tape is active") {
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
  check_values(x.grad(), {10.0 + 108.0});
}

TEST_CASE("gradients of a nested tape flow through results of the outer tape to their leaves") {
  const Tensor x = leaf(3.0);
  Tape outer;
  const Tensor y = square(x);
  {
    Tape inner;
    inner.backward(Tensor::scalar(5.0, DType::float64) * y);
  }
  check_values(y.grad(), {5.0});
  outer.backward(y);  // adds 1 to y.grad()
  check_values(x.grad(), {6.0 * 6.0});
}

TEST_CASE(
    "under NoGrad, nothing is recorded except on a tape that is constructed inside its scope") {
  const Tensor x = leaf(3.0);
  Tape tape;
  {
    const NoGrad no_grad;
    CHECK(execution_context().tape == nullptr);
    CHECK_FALSE(square(x).requires_grad());
    {
      Tape inner;
      inner.backward(square(x));
      check_values(x.grad(), {6.0});
    }
    CHECK(execution_context().tape == nullptr);
  }
  CHECK(execution_context().tape == &tape);
  CHECK(tape.size() == 0);
}

TEST_CASE("results computed under NoGrad are constants, even if an exception ended its scope") {
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
  check_values(x.grad(), {9.0});
}

TEST_CASE("NoGrad has no effect without a tape or on other threads") {
  {
    const NoGrad no_grad;
    CHECK(execution_context().tape == nullptr);
  }
  const Tensor x = leaf(3.0);
  Tape tape;
  std::thread([] { const NoGrad no_grad; }).join();
  std::thread([] {
    CHECK(execution_context().tape == nullptr);
    Tape own;
    const Tensor w = leaf(2.0);
    own.backward(square(w));
    CHECK(w.grad().item() == 4.0);
  }).join();
  tape.backward(square(x));
  check_values(x.grad(), {6.0});
}

TEST_CASE("operations inside backward are not recorded") {
  const Tensor x = leaf(3.0);
  Tape tape;
  tape.backward(square(x) / leaf(2.0));
  CHECK(tape.size() == 0);
  CHECK_FALSE(x.grad().requires_grad());
}

/// A leaf that a tape reports, with its gradient at that time.
struct Report {
  const GradientSlot* leaf;
  double gradient;
};

/// Reports of a tape during backward of y.
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

TEST_CASE(
    "backward reports leaves of unreached branches without a gradient, but not unused leaves") {
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
    check_error<ValueError>("square: backward:|the values of an input changed after the",
                            [&] { tape.backward(y); });
  }
  x.zero_grad();
  Tape tape;
  x.mutable_values<double>()[0] = 2.0;  // a change before the operation is allowed
  const Tensor y = square(x);
  CHECK(x.values<double>()[0] == 2.0);  // reading has no effect
  tape.backward(y);
  x.mutable_values<double>()[0] = 1.0;  // a change after backward is allowed
  check_values(x.grad(), {4.0});
}

namespace {

std::size_t bytes_in_use() { return kernels::memory_statistics().bytes_in_use; }

/// The identity, which records the memory in use when its backward runs.
struct Probe {
  static constexpr const char* name = "probe";
  std::size_t* bytes;
  Tensor forward(const Tensor& x) { return x.detach(); }
  void backward(const Tensor& dy, Gradient dx) const {
    *bytes = bytes_in_use();
    dx.add(dy);
  }
};

}  // namespace

TEST_CASE("an unused tape releases all the memory that it kept") {
  const Tensor x = leaf({1000}, 1.0);
  const std::size_t before = bytes_in_use();
  {
    const Tape tape;
    Tensor y = x;
    for (int i = 0; i < 5; ++i) y = exp(y);
    CHECK(bytes_in_use() >= before + 5 * 8000);
  }
  CHECK(bytes_in_use() == before);
}

TEST_CASE("backward releases values as it proceeds") {
  constexpr int depth = 10;
  constexpr std::size_t bytes = 8000;
  const Tensor x = leaf({1000}, 1e-3);
  std::size_t at_the_end_of_backward = 0;
  Tape tape;
  const std::size_t before = bytes_in_use();
  Tensor y = apply(Probe{&at_the_end_of_backward}, x);
  for (int i = 0; i < depth; ++i) y = exp(y) * Tensor::scalar(0.1, DType::float64);
  const std::size_t after_forward = bytes_in_use();
  CHECK(after_forward >= before + depth * bytes);
  tape.backward(y, Tensor::full({1000}, 1.0, DType::float64));
  CHECK(at_the_end_of_backward < before + 4 * bytes);  // y and one or two gradients
}

TEST_CASE("retain_grad keeps the gradient of an output, and no other gradient") {
  const Tensor x = leaf(3.0);
  Tape tape;
  Tensor h = square(x);
  const Tensor other = exp(h * 0.0);
  h.retain_grad();
  const Tensor loss = h * h + 2.0 * h + other;
  tape.backward(loss);
  check_values(h.grad(), {20.0});  // d loss / dh = 2 h + 2
  check_values(x.grad(), {120.0});
  CHECK_FALSE(other.grad().defined());
  CHECK_FALSE(loss.grad().defined());
  check_error<ValueError>("only be read", [&] { h.grad().mutable_values<double>(); });
}

TEST_CASE("retain_grad has no effect on a leaf and rejects a constant") {
  Tensor x = leaf(3.0);
  x.retain_grad();
  Tape tape;
  tape.backward(square(x));
  tape.backward(square(x));
  check_values(x.grad(), {12.0});
  Tensor constant = Tensor::scalar(1.0);
  check_error<ValueError>("retain_grad:", [&] { constant.retain_grad(); });
  check_error<ValueError>("retain_grad:", [&] { x.detach().retain_grad(); });
}

TEST_CASE("clone and to are recorded, with gradients of the element type of x, but detach is not") {
  const Tensor x = leaf({2}, 3.0);
  Tape tape;
  const Tensor half = x.to(DType::float32);
  CHECK(half.requires_grad());
  CHECK(half.dtype() == DType::float32);
  tape.backward(sum(square(half).to(DType::float64) + x.clone()));
  check_values(x.grad(), {7.0, 7.0});
  CHECK(x.grad().dtype() == DType::float64);
  CHECK(x.clone().memory().data() != x.memory().data());
  CHECK(x.detach().memory().data() == x.memory().data());
  CHECK_FALSE(x.detach().clone().requires_grad());
}

TEST_CASE("backward of a chain of 100,000 operations does not overflow the stack" *
          doctest::skip(is_guarded_run())) {
  const Tensor x = leaf(3.0);
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = neg(y);
  tape.backward(y);
  check_values(x.grad(), {1.0});
}
