#include <doctest/doctest.h>

#include <optional>
#include <thread>
#include <vector>

#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/support/guarded_memory.h"
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

std::size_t bytes_in_use() { return kernels::memory_statistics().bytes_in_use; }

/// Passes x on, and notes the memory in use when its backward runs.
struct Probe {
  static constexpr const char* name = "probe";
  std::size_t* bytes;
  Tensor forward(const Tensor& x) { return x.viewed_as(x.shape()); }
  void backward(const Tensor& dy, Gradient dx) const {
    *bytes = bytes_in_use();
    dx.add(dy);
  }
};

}  // namespace

TEST_CASE("a tape outlives the tensors that it has recorded") {
  const Tensor x = leaf({100}, 2.0);
  Tape tape;
  Tensor result;
  {
    const Tensor y = square(x);
    result = y * y;
  }
  tape.backward(result, Tensor::full({100}, 1.0, DType::float64));
  check_values(x.gradient(), std::vector<double>(100, 32.0));
}

TEST_CASE("tensors outlive the tape that has recorded them") {
  const Tensor x = leaf(3.0);
  std::optional<Tape> tape(std::in_place);
  const Tensor y = square(x);
  tape.reset();
  CHECK(execution_context().tape == nullptr);
  CHECK(y.item() == 9.0);
  CHECK_FALSE(square(y).requires_gradient());
}

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
  CHECK(at_the_end_of_backward < before + 4 * bytes);  // y and a gradient or two
}

TEST_CASE("every thread has a tape of its own") {
  const Tensor x = leaf(3.0);
  Tape tape;
  const Tensor y = square(x);
  std::vector<double> gradients(2);
  const auto work = [&](std::size_t i) {
    CHECK(execution_context().tape == nullptr);
    const Tensor own = leaf({5000}, static_cast<double>(i + 1));
    for (int repeat = 0; repeat < 50; ++repeat) {
      Tape own_tape;
      own_tape.backward(square(own), Tensor::full({5000}, 1.0, DType::float64));
    }
    gradients[i] = own.gradient().values<double>()[4999];
  };
  std::thread first(work, 0), second(work, 1);
  first.join();
  second.join();
  CHECK(gradients == std::vector<double>{100.0, 200.0});
  CHECK(tape.size() == 1);
  tape.backward(y);
  check_values(x.gradient(), {6.0});
}

// More blocks at a time than guarded memory can have.
TEST_CASE("backward of a chain of 100,000 operations needs no deep stack" *
          doctest::skip(is_guarded_run())) {
  const Tensor x = leaf(3.0);
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = neg(y);
  tape.backward(y);
  check_values(x.gradient(), {1.0});
}
