// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/tensor.h"

#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/memory.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/support/errors.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

// x[0] = y does not compile: it would change only a temporary handle.
static_assert(!std::is_assignable_v<Tensor, Tensor>);
static_assert(std::is_assignable_v<Tensor&, Tensor>);

TEST_CASE("tensors are made from values, one value, zeros and scalars, in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 2}, {1.0, 2.0, 3.0, 4.5}, dtype);
    CHECK(x.shape() == Shape{2, 2});
    CHECK(x.rank() == 2);
    CHECK(x.size() == 4);
    CHECK(x.dtype() == dtype);
    check_values(x, {1.0, 2.0, 3.0, 4.5});
    check_values(Tensor::full({3}, -1.5, dtype), {-1.5, -1.5, -1.5});
    check_values(Tensor::zeros({2}, dtype), {0.0, 0.0});
    CHECK(Tensor::scalar(2.5, dtype).item() == 2.5);
    CHECK(Tensor::empty({0, 3}, dtype).size() == 0);
  }
}

// In a guarded run, values may be unaligned.

TEST_CASE("the values of a tensor start on a 64-byte boundary" * doctest::skip(is_guarded_run())) {
  for (const std::size_t n : {1, 3, 100, 5000}) {
    const Tensor x = Tensor::empty({n}, DType::float32);
    CHECK(reinterpret_cast<std::uintptr_t>(x.values<float>().data()) % 64 == 0);
  }
}

TEST_CASE("copies of a handle share values and gradient") {
  Tensor x = Tensor::zeros({2}, DType::float32);
  Tensor same = x;
  same.mutable_values<float>()[1] = 7.0F;
  check_values(x, {0.0, 7.0});
  same.set_requires_grad(true);
  CHECK(x.requires_grad());
}

TEST_CASE("a view has a different shape and the same memory; a copy has its own memory") {
  Tensor x = Tensor::from({2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, DType::float64);
  const Tensor view = x.viewed_as({3, 2});
  const Tensor copy = x.detach().to(DType::float32);
  x.mutable_values<double>()[0] = 9.0;
  CHECK(view.shape() == Shape{3, 2});
  check_values(view, {9.0, 2.0, 3.0, 4.0, 5.0, 6.0});
  CHECK(copy.dtype() == DType::float32);
  check_values(copy, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0});
}

TEST_CASE("neither a view nor a copy of a leaf is a leaf") {
  Tensor x = Tensor::zeros({2}, DType::float64);
  x.set_requires_grad(true);
  CHECK_FALSE(x.viewed_as({2, 1}).requires_grad());
  CHECK_FALSE(x.detach().to(DType::float64).requires_grad());
}

TEST_CASE("a default-constructed tensor is empty, and using it is an error") {
  const Tensor none;
  CHECK_FALSE(none.defined());
  CHECK_FALSE(none.requires_grad());
  CHECK(Tensor::scalar(0.0, DType::float32).defined());
  const char* words = "tensor:|the tensor is empty";
  check_error<ValueError>(words, [&] { none.shape(); });
  check_error<ValueError>(words, [&] { none.values<float>(); });
  check_error<ValueError>(words, [&] { none.dtype(); });
}

TEST_CASE("the error for an empty tensor names the operation and the number of the input") {
  const Tensor none, x = Tensor::zeros({2}, DType::float32).set_requires_grad(true);
  check_error<EmptyTensorError>("relu: input 1|empty Tensor|backward", [&] { relu(none); });
  check_error<EmptyTensorError>("add: input 2|empty Tensor", [&] { x + none; });
  check_error<EmptyTensorError>("mul: input 1|empty Tensor", [&] { none* x; });
  check_error<EmptyTensorError>("linear: an input|empty Tensor",
                                [&] { common_dtype("linear", x, none); });
  static const std::string& path = interned_path("encoder.ff");
  const LayerPath here(path);
  const Tape tape;
  check_error<ValueError>("encoder.ff: exp: input 1|empty Tensor", [&] { exp(x.grad()); });
}

TEST_CASE("tensors reject the wrong number of values, the wrong type and impossible views") {
  check_error<ShapeError>("tensor:|3|(2, 2)|4", [&] {
    Tensor::from({2, 2}, {1.0, 2.0, 3.0}, DType::float32);
  });
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  check_error<DTypeError>("tensor:|float32|float64", [&] { x.values<double>(); });
  check_error<ShapeError>("item:|(2, 3)", [&] { x.item(); });
  check_error<ShapeError>("viewed_as:|(2, 3)|(4)|6|4", [&] { x.viewed_as({4}); });
  const Tensor other = Tensor::zeros({2, 3}, DType::float64);
  check_error<DTypeError>("op:|float32|float64", [&] { common_dtype("op", x, other); });
  CHECK(common_dtype("op", x, x) == DType::float32);
}

TEST_CASE("a shape of more bytes than a size can hold is rejected") {
  constexpr std::size_t too_many = std::size_t{1}
                                   << 61;  // the number of float64 values in 2^64 bytes
  constexpr std::size_t half = std::size_t{1} << 30, other_half = std::size_t{1} << 31;
  for (const Shape& shape : {Shape{too_many}, Shape{half, other_half}, Shape{half, 1, other_half},
                             Shape{0, half, other_half}, Shape{half, other_half, 0}}) {
    CHECK_THROWS_AS(Tensor::empty(shape, DType::float32), ShapeError);
  }
  if (!is_guarded_run()) {
    CHECK_THROWS_AS(Tensor::empty({too_many - 1}, DType::float64), kernels::OutOfMemory);
  }
  CHECK(Tensor::empty({0, half, half}, DType::float64).size() == 0);
}

TEST_CASE("move_into keeps values and gradient, and existing handles remain valid") {
  for (const DType dtype : dtypes) {
    const std::size_t offset = 3 * bytes_per_element(dtype);
    Tensor x = Tensor::from({2}, {1.0, 2.0}, dtype);
    const Tensor handle = x;
    x.set_requires_grad(true);
    const auto accumulate = [&] {
      Tape tape;
      tape.backward(mul(x, x), Tensor::full({2}, 1.0, dtype));
    };
    accumulate();

    const kernels::Memory values(64);
    const kernels::Memory gradients(64);
    x.move_into(values, offset, gradients, offset);
    check_values(handle, {1.0, 2.0});
    check_values(handle.grad(), {2.0, 4.0});
    CHECK(handle.byte_offset() == offset);
    CHECK(handle.grad().byte_offset() == offset);
    CHECK(handle.grad().memory().data() == gradients.data());

    accumulate();
    check_values(handle.grad(), {4.0, 8.0});
    x.zero_grad();
    CHECK_FALSE(x.grad().defined());
    accumulate();
    check_values(handle.grad(), {2.0, 4.0});
    CHECK(handle.grad().memory().data() == gradients.data());
  }
}

TEST_CASE("move_into releases the old memory of the tensor") {
  Tensor x = Tensor::zeros({1000}, DType::float64);
  const kernels::Memory buffer(8000);
  const std::size_t before = kernels::memory_statistics().bytes_in_use;
  x.move_into(buffer, 0, {}, 0);
  CHECK(before - kernels::memory_statistics().bytes_in_use >= 8000);
}

TEST_CASE("factories make float32 tensors by default") {
  CHECK(Tensor::zeros({2}).dtype() == DType::float32);
  CHECK(Tensor::scalar(1.0).dtype() == DType::float32);
  check_values(Tensor::ones({2, 2}), {1.0, 1.0, 1.0, 1.0});
  CHECK(Tensor::ones({2}, DType::float64).dtype() == DType::float64);
  check_values(Tensor::arange(4), {0.0, 1.0, 2.0, 3.0});
  check_values(Tensor::arange(3, 1.0, -0.5, DType::float64), {1.0, 0.5, 0.0});
  CHECK(Tensor::arange(0).shape() == Shape{0});
  const std::vector<float> singles{1.5F, -2.5F};
  const std::vector<double> doubles{0.1, 0.2};
  check_values(Tensor::from({2}, singles), {1.5, -2.5});
  CHECK(Tensor::from({2}, singles, DType::float64).dtype() == DType::float64);
  CHECK(values_of(Tensor::from({2}, doubles, DType::float64)) == doubles);
  CHECK_THROWS_AS(Tensor::from({3}, singles), ShapeError);
}

TEST_CASE("an index selects a part along the first axis, with its gradient") {
  Tensor x = Tensor::from({3, 2}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, DType::float64);
  x.set_requires_grad(true);
  Tape tape;
  const Tensor last = x[-1];
  CHECK(last.shape() == Shape{2});
  check_values(last, {5.0, 6.0});
  CHECK(x[1][0].item() == 3.0);
  tape.backward(last, Tensor::from({2}, {7.0, 8.0}, DType::float64));
  check_values(x.grad(), {0.0, 0.0, 0.0, 0.0, 7.0, 8.0});
  CHECK_THROWS_AS(x[3], ValueError);
  CHECK_THROWS_AS(Tensor::scalar(1.0)[0], ValueError);
}

TEST_CASE("a frozen leaf is a constant without a gradient until it is unfrozen") {
  for (const DType dtype : dtypes) {
    Tensor x = Tensor::scalar(3.0, dtype).set_requires_grad(true);
    const Tensor handle = x;
    Tape first;
    first.backward(square(x));
    CHECK_FALSE(x.is_frozen());

    x.set_requires_grad(false);
    CHECK(handle.is_frozen());
    CHECK_FALSE(handle.requires_grad());
    CHECK_FALSE(handle.grad().defined());
    Tape tape;
    CHECK_FALSE(square(x).requires_grad());
    CHECK(tape.size() == 0);
    CHECK_THROWS_AS(tape.backward(x), ValueError);

    x.set_requires_grad(false);  // a second call has no effect
    x.set_requires_grad(true);
    CHECK_FALSE(handle.is_frozen());
    CHECK_FALSE(handle.grad().defined());
    tape.backward(square(x));
    check_values(handle.grad(), {6.0});
  }
}

TEST_CASE("contributions to a leaf that was frozen after recording are discarded") {
  Tensor x = Tensor::scalar(3.0, DType::float64).set_requires_grad(true);
  Tensor w = Tensor::scalar(2.0, DType::float64).set_requires_grad(true);
  Tape tape;
  const Tensor y = x * w;
  x.set_requires_grad(false);
  tape.backward(y);
  CHECK_FALSE(x.grad().defined());
  check_values(w.grad(), {3.0});
  x.set_requires_grad(true);
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("a tensor that required no gradient may be frozen; an output of an operation may not") {
  Tensor x = Tensor::scalar(3.0, DType::float64);
  CHECK_FALSE(x.is_frozen());
  CHECK(x.set_requires_grad(false).is_frozen());
  CHECK_FALSE(x.viewed_as({1}).is_frozen());
  CHECK_FALSE(x.detach().to(DType::float32).is_frozen());
  CHECK_FALSE(Tensor().is_frozen());
  CHECK_THROWS_AS(Tensor().set_requires_grad(false), ValueError);

  x.set_requires_grad(true);
  Tape tape;
  Tensor y = square(x);
  check_error<ValueError>("set_requires_grad:|the output of an operation",
                          [&] { y.set_requires_grad(false); });
  tape.backward(y);
  check_values(x.grad(), {6.0});
}

TEST_CASE("the output of an operation does not become a leaf") {
  const Tensor x = Tensor::scalar(3.0, DType::float64).set_requires_grad(true);
  const char* words = "set_requires_grad:|the output of an operation|detach|retain_grad";
  Tensor y;
  {
    Tape tape;
    y = square(x);
    check_error<ValueError>(words, [&] { y.set_requires_grad(true); });
    const Tensor zeros = zeros_like(y).set_requires_grad(true);
    tape.backward(square(y + zeros));
    check_values(zeros.grad(), {18.0});
    check_values(x.grad(), {108.0});
  }
  check_error<ValueError>(words, [&] { y.set_requires_grad(true); });  // even after the tape ends
  CHECK(y.detach().clone().set_requires_grad(true).requires_grad());
  Tensor unrecorded = square(x);
  CHECK(unrecorded.set_requires_grad(true).requires_grad());
  Tensor leaf = x;
  CHECK(leaf.set_requires_grad(true).slot() == x.slot());
}

TEST_CASE("a tensor that is moved while it is frozen has its gradient in the new memory") {
  Tensor x = Tensor::scalar(3.0, DType::float64).set_requires_grad(false);
  const kernels::Memory values(128), gradients(128);
  x.move_into(values, 64, gradients, 64);
  CHECK(x.is_frozen());
  x.set_requires_grad(true);
  Tape tape;
  tape.backward(square(x));
  CHECK(x.grad().memory().data() == gradients.data());
  CHECK(x.grad().byte_offset() == 64);
  check_values(x.grad(), {6.0});
}

TEST_CASE("handles of one tensor have the same identity, but views and equal tensors do not") {
  const Tensor x = Tensor::scalar(3.0);
  const Tensor handle = x;
  CHECK(handle.identity() == x.identity());
  CHECK(x.viewed_as({1}).identity() != x.identity());
  CHECK(Tensor::scalar(3.0).identity() != x.identity());
}

TEST_CASE(
    "a list of values makes a tensor with one axis, and a list of rows makes a tensor with two "
    "axes") {
  const Tensor row = Tensor::from({1.0, 2.5});
  CHECK(row.shape() == Shape{2});
  CHECK(row.dtype() == DType::float32);
  check_values(row, {1.0, 2.5});
  check_values(Tensor::from({7}), {7.0});
  CHECK(Tensor::from({0.1}, DType::float64).item() == 0.1);
  const std::vector<float> singles{1.5F, -2.5F};
  const std::vector<double> doubles{0.1, 0.2};
  check_values(Tensor::from(singles), {1.5, -2.5});
  CHECK(Tensor::from(doubles, DType::float64).to_vector() == doubles);

  const Tensor rows = Tensor::from({{1, 2, 3}, {4, 5, 6}});
  CHECK(rows.shape() == Shape{2, 3});
  check_values(rows, {1, 2, 3, 4, 5, 6});
  CHECK(Tensor::from({{1.0, 2.0}}, DType::float64).shape() == Shape{1, 2});
  CHECK(Tensor::from({{1.0, 2.0}}, DType::float64).dtype() == DType::float64);
  check_error<ShapeError>("tensor:|1|2|3", [&] { Tensor::from({{1, 2, 3}, {4, 5}}); });
}

TEST_CASE("a list of rows of one value makes a column, for every type of list") {
  for (const Tensor& column :
       {Tensor::from({{1}, {2}}), Tensor::from({{1.0}, {2.0}}), Tensor::from({{1}, {2.0}}),
        Tensor::from({{1}, {2}}, DType::float32), Tensor::from({2, 1}, {1, 2})}) {
    CHECK(column.shape() == Shape{2, 1});
    CHECK(column.dtype() == DType::float32);
    check_values(column, {1, 2});
  }
  CHECK(Tensor::from({{1}, {2}, {3}}).shape() == Shape{3, 1});
  CHECK(Tensor::from({{0.5}, {1}}, DType::float64).dtype() == DType::float64);
  CHECK(Tensor::from({{7}}).shape() == Shape{1, 1});
  CHECK(Tensor::from({{7.5}}, DType::float64).shape() == Shape{1, 1});
  CHECK(Tensor::from({{1, 2}}).shape() == Shape{1, 2});
  CHECK(Tensor::from({1, 2}).shape() == Shape{2});
  CHECK(Tensor::from({-1}).shape() == Shape{1});
  CHECK(Tensor::from({1}, {2}).shape() == Shape{1});
  const double x = 3.0;
  CHECK(Tensor::from({x, 2 * x}).shape() == Shape{2});
  CHECK(Tensor::from({{x}, {2 * x}}).shape() == Shape{2, 1});
}

template <class T>
concept TruthValue = requires(const T& x) {
  x ? 1 : 0;
};

TEST_CASE("a tensor has defined() and no conversion to bool") {
  CHECK(Tensor::scalar(0.0).defined());
  CHECK_FALSE(Tensor().defined());
  static_assert(!TruthValue<Tensor>);  // if (loss > 0.1) would always be true
  static_assert(TruthValue<Gradient>);
}

TEST_CASE("full_like, zeros_like and ones_like have the shape and element type of their argument") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::full({2, 3}, 5.0, dtype);
    for (const auto& [like, value] :
         {std::pair{zeros_like(x), 0.0}, {ones_like(x), 1.0}, {full_like(x, -2.5), -2.5}}) {
      CHECK(like.dtype() == dtype);
      CHECK(like.shape() == x.shape());
      check_values(like, std::vector<double>(6, value));
    }
    check_values(Tensor::arange(3, dtype), {0.0, 1.0, 2.0});
    CHECK(Tensor::arange(3, dtype).dtype() == dtype);
  }
}
