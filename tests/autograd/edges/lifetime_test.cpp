#include <doctest/doctest.h>

#include <limits>
#include <optional>
#include <thread>

#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/autograd/edges/every_operation.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

/// The operation's result on copies of the leaves; result and copies are gone when this returns,
/// and only a copy of the result is left.
Tensor copy_of_result(const OperationCase& operation, const OperationCase::Operands& leaves) {
  OperationCase::Operands copies;
  for (const Tensor& leaf : leaves) copies.push_back(scale(leaf, 1.0));
  return scale(operation.run(copies), 1.0);
}

/// Fills the blocks that the pool would hand out next for tensors of these sizes with NaN.
void scribble(const OperationCase::Operands& like) {
  OperationCase::Operands taken;
  for (const Tensor& x : like) {
    for (int block = 0; block < 4; ++block) {
      taken.push_back(Tensor::full(x.shape(), undefined, x.dtype()));
    }
  }
}

/// Results of every operation on small operands.
std::vector<Results> all_results() {
  std::vector<Results> results;
  for (const OperationCase& operation : every_operation(3, 9)) {
    results.push_back(results_of(operation, operands_of(operation, DType::float32)));
  }
  return results;
}

}  // namespace

TEST_CASE("every operation keeps what backward needs after its operands and result are destroyed") {
  for (const std::size_t n : {1, 9, 40}) {
    for (const OperationCase& operation : every_operation(3, n)) {
      CAPTURE(operation.name);
      CAPTURE(n);
      const auto operands = operands_of(operation, DType::float64);
      const auto leaves = leaves_of(operands);
      Tape tape;
      const Tensor y = copy_of_result(operation, leaves);
      scribble(leaves);
      scribble({y});
      tape.backward(y, upstream_of(y));
      CHECK(gradient_values(leaves) == results_of(operation, operands).gradients);
    }
  }
}

TEST_CASE("the results of every operation outlive the tape that has recorded them") {
  for (const OperationCase& operation : every_operation(3, 9)) {
    CAPTURE(operation.name);
    const auto operands = operands_of(operation, DType::float64);
    std::optional<Tape> tape(std::in_place);
    const Tensor y = operation.run(leaves_of(operands));
    tape.reset();
    scribble(operands);
    CHECK(values_of(y) == results_of(operation, operands).y);
  }
}

TEST_CASE("two threads with a tape each get the results of one thread for every operation") {
  const std::vector<Results> alone = all_results();
  std::vector<std::size_t> wrong(2, 0);
  const auto work = [&](std::size_t thread) {
    for (int repeat = 0; repeat < 10; ++repeat) wrong[thread] += all_results() != alone;
  };
  std::thread first(work, 0), second(work, 1);
  first.join();
  second.join();
  CHECK(wrong == std::vector<std::size_t>{0, 0});
}
