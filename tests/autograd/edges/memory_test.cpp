// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "autograd/kernels/memory.h"
#include "tests/autograd/edges/every_operation.h"
#include "tests/support/guarded_memory.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr Guard sides[] = {Guard::back, Guard::front};

/// Reads the byte in a child process and returns whether this causes a segmentation fault.
bool faults(const std::byte* address) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    const volatile std::byte* const read = address;
    static_cast<void>(*read);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

/// The byte directly after the block (`back`) or before it (`front`).
const std::byte* neighbor(const std::byte* data, std::size_t bytes, Guard side) {
  return side == Guard::back ? data + bytes : data - 1;
}

struct Size {
  std::size_t rows, n;
};

/// Sizes around multiples of vectors, tiles, dropout groups, strips of columns and blocks of rows,
/// in both precisions. The alignment tests cover all n up to two vectors.
const std::vector<Size> sizes = {{1, 48},  {2, 63},  {13, 64}, {12, 65},  {16, 31},
                                 {17, 33}, {36, 32}, {37, 40}, {5, 128},  {4, 129},
                                 {1, 256}, {3, 257}, {49, 16}, {65, 100}, {33, 1}};

}  // namespace

TEST_CASE("guarded memory borders directly on an unreadable page and is readable throughout") {
  for (const Guard side : sides) {
    for (const std::size_t bytes : {1, 4, 60, 4092, 4096, 4100, 100'000}) {
      CAPTURE(bytes);
      auto* const data = static_cast<std::byte*>(allocate_guarded(bytes, side));
      REQUIRE(data != nullptr);
      CHECK(is_guarded(data));
      for (std::size_t i = 0; i < bytes; ++i) REQUIRE(data[i] == std::byte{0xff});
      std::memset(data, 0, bytes);
      CHECK(faults(neighbor(data, bytes, side)));
      release_guarded(data);
    }
  }
}

TEST_CASE("guarded memory of 0 bytes has unreadable bytes on both sides") {
  for (const Guard side : sides) {
    auto* const data = static_cast<std::byte*>(allocate_guarded(0, side));
    CHECK(faults(data));
    CHECK(faults(data - 1));
    release_guarded(data);
  }
}

TEST_CASE("released guarded memory is reused and filled with NaN again") {
  for (const Guard side : sides) {
    auto* const first = static_cast<std::byte*>(allocate_guarded(3000, side));
    std::memset(first, 0, 3000);
    release_guarded(first);
    auto* const second = static_cast<std::byte*>(allocate_guarded(3000, side));
    CHECK(second == first);
    CHECK(second[1500] == std::byte{0xff});
    release_guarded(second);
  }
}

TEST_CASE("in a guarded run, tensors, blocks and arrays border on an unreadable page" *
          doctest::skip(!is_guarded_run())) {
  for (const std::size_t n : {1, 5, 64, 1500}) {
    CAPTURE(n);
    const kernels::Memory memory(n);
    CHECK(faults(neighbor(memory.data(), n, guard())));
    const Tensor x = Tensor::full({n}, 1.0, DType::float32);
    const std::byte* const values = std::as_bytes(x.values<float>()).data();
    CHECK(faults(neighbor(values, n * sizeof(float), guard())));
    const std::vector<float> array(n);
    CHECK(faults(neighbor(std::as_bytes(std::span(array)).data(), n * sizeof(float), guard())));
  }
}

TEST_CASE("no operation returns NaN for operands with sizes around its block sizes") {
  for (const Size& size : sizes) {
    for (const OperationCase& operation : every_operation(size.rows, size.n)) {
      for (const DType dtype : dtypes) {
        CAPTURE(operation.name);
        CAPTURE(size.rows);
        CAPTURE(size.n);
        CAPTURE(name(dtype));
        const Results results = results_of(operation, dtype);
        CHECK(results == results);  // false if a result is NaN
      }
    }
  }
}

namespace {

/// More than two full vectors and a tail in either precision.
constexpr std::size_t largest = 2 * 16 + 1;

/// Memory for a tensor and one more element on either side, filled with NaN.
Tensor fenced_room(const Tensor& x) {
  return Tensor::full({x.size() + 2}, not_a_number, x.dtype());
}

bool fences_stand(const Tensor& room) {
  const auto values = values_of(room);
  return std::isnan(values.front()) && std::isnan(values.back());
}

/// A tensor with the values of x, which start one element after a 64-byte boundary, between two
/// NaN.
Tensor unaligned(const Tensor& x) {
  Tensor room = fenced_room(x);
  dispatch(x.dtype(), [&]<class T>() {
    std::ranges::copy(x.values<T>(), room.mutable_values<T>().begin() + 1);
  });
  return Tensor::over(x.shape(), x.dtype(), room.memory(), bytes_per_element(x.dtype()));
}

/// A leaf with the values of x. Its values and its gradient start one element after a 64-byte
/// boundary.
struct UnalignedLeaf {
  explicit UnalignedLeaf(const Tensor& x)
      : values(fenced_room(x)), gradient(fenced_room(x)), tensor(x.detach().clone()) {
    const std::size_t offset = bytes_per_element(x.dtype());
    tensor.set_requires_grad(true);
    tensor.move_into(values.memory(), offset, gradient.memory(), offset);
  }

  Tensor values, gradient, tensor;
};

/// Like results_of, but on operands without vector alignment.
Results results_on_unaligned(const OperationCase& operation, const Operands& operands) {
  std::vector<UnalignedLeaf> leaves(operands.begin(), operands.end());
  Operands tensors;
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

/// Checks that each element, computed separately, has the same value and gradient as in the results
/// for all elements.
void check_each_element(const OperationCase& operation, DType dtype) {
  const Tensor x = operands_of(operation, dtype)[0];
  const Results all = results_of(operation, dtype);
  const auto values = values_of(x);
  const auto dy = values_of(upstream_of(x));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Tensor alone = Tensor::from({1}, {values[i]}, dtype).set_requires_grad(true);
    Tape tape;
    const Tensor y = operation.run({alone});
    tape.backward(y, Tensor::from({1}, {dy[i]}, dtype));
    CHECK(y.item() == all.y[i]);
    CHECK(alone.grad().item() == all.gradients[0][i]);
  }
}

}  // namespace

TEST_CASE("no operation depends on operand alignment or writes outside its results") {
  for (std::size_t n = 1; n <= largest; ++n) {
    for (const OperationCase& operation : every_operation(3, n)) {
      for (const DType dtype : dtypes) {
        CAPTURE(operation.name);
        CAPTURE(n);
        CAPTURE(name(dtype));
        const auto operands = operands_of(operation, dtype);
        CHECK(results_on_unaligned(operation, operands) == results_of(operation, dtype));
      }
    }
  }
}

TEST_CASE("an element has the same value and gradient in a vector, a tail and a 1-element tensor") {
  for (std::size_t n = 1; n <= largest; ++n) {
    for (const OperationCase& operation : every_elementwise_operation({n})) {
      for (const DType dtype : dtypes) {
        CAPTURE(operation.name);
        CAPTURE(n);
        CAPTURE(name(dtype));
        check_each_element(operation, dtype);
      }
    }
  }
}
