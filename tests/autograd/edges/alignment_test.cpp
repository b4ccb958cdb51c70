#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/tape.h"
#include "tests/autograd/edges/every_operation.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

/// Beyond two full vectors and a tail of either precision.
constexpr std::size_t largest = 2 * 16 + 1;

/// Room for a tensor with one element more on either side, all NaN.
Tensor fenced_room(const Tensor& x) { return Tensor::full({x.size() + 2}, undefined, x.dtype()); }

bool fences_stand(const Tensor& room) {
  const auto values = values_of(room);
  return std::isnan(values.front()) && std::isnan(values.back());
}

/// A tensor with x's values one element beyond a 64-byte boundary, between two NaN.
Tensor unaligned(const Tensor& x) {
  Tensor room = fenced_room(x);
  dispatch(x.dtype(), [&]<class T>() {
    std::ranges::copy(x.values<T>(), room.mutable_values<T>().begin() + 1);
  });
  return Tensor::over(x.shape(), x.dtype(), room.memory(), bytes_per_element(x.dtype()));
}

/// A leaf with x's values, in such a place with its gradient in another.
struct UnalignedLeaf {
  explicit UnalignedLeaf(const Tensor& x)
      : values(fenced_room(x)), gradient(fenced_room(x)), tensor(x.copied(x.dtype())) {
    const std::size_t offset = bytes_per_element(x.dtype());
    tensor.require_gradient();
    tensor.move_into(values.memory(), offset, gradient.memory(), offset);
  }

  Tensor values, gradient, tensor;
};

/// What results_of gives, computed without a single operand that is aligned to a vector.
Results results_on_unaligned(const OperationCase& operation,
                             const OperationCase::Operands& operands) {
  std::vector<UnalignedLeaf> leaves(operands.begin(), operands.end());
  OperationCase::Operands tensors;
  for (const UnalignedLeaf& leaf : leaves) tensors.push_back(leaf.tensor);
  Tape tape;
  const Tensor y = operation.run(tensors);
  tape.backward(y, unaligned(upstream_of(y)));
  for (const UnalignedLeaf& leaf : leaves) {
    CHECK(fences_stand(leaf.values));
    CHECK(fences_stand(leaf.gradient));
  }
  return {values_of(y), gradient_values(tensors)};
}

/// Checks one value and gradient of each element alone against those of all.
void check_each_alone(const OperationCase& operation, DType dtype) {
  const Tensor x = operands_of(operation, dtype)[0];
  const Results all = results_of(operation, {x});
  const auto values = values_of(x);
  const auto dy = values_of(upstream_of(x));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Tensor alone = Tensor::from({1}, {values[i]}, dtype).require_gradient();
    Tape tape;
    const Tensor y = operation.run({alone});
    tape.backward(y, Tensor::from({1}, {dy[i]}, dtype));
    CHECK(y.item() == all.y[i]);
    CHECK(alone.gradient().item() == all.gradients[0][i]);
  }
}

}  // namespace

TEST_CASE("no operation depends on the alignment of its operands, nor writes beside its results") {
  for (std::size_t n = 1; n <= largest; ++n) {
    for (const OperationCase& operation : every_operation(3, n)) {
      for (const DType dtype : dtypes) {
        CAPTURE(operation.name);
        CAPTURE(n);
        CAPTURE(name(dtype));
        const auto operands = operands_of(operation, dtype);
        CHECK(results_on_unaligned(operation, operands) == results_of(operation, operands));
      }
    }
  }
}

TEST_CASE("an element has the same value and gradient in a full vector, in a tail and alone") {
  for (std::size_t n = 1; n <= largest; ++n) {
    for (const OperationCase& operation : every_elementwise_operation({n})) {
      for (const DType dtype : dtypes) {
        CAPTURE(operation.name);
        CAPTURE(n);
        CAPTURE(name(dtype));
        check_each_alone(operation, dtype);
      }
    }
  }
}
