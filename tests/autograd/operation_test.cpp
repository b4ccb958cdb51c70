// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/operation.h"

#include <doctest/doctest.h>

#include <vector>

#include "autograd/error.h"
#include "autograd/gradient.h"
#include "autograd/ops/elementwise.h"
#include "tests/support/errors.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// a + 2 b, or a if b is absent; records which gradients were needed.
struct AddTwice {
  static constexpr const char* name = "add_twice";
  std::vector<bool>* wanted;

  Tensor forward(const Tensor& a, const Tensor& b) {
    return Tensor::scalar(a.item() + (b.defined() ? 2.0 * b.item() : 0.0), DType::float64);
  }
  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    *wanted = {static_cast<bool>(da), static_cast<bool>(db)};
    if (da) da.add(dy);
    if (db) db.target<double>().put(0, 2.0 * dy.item());
  }
};

/// Sum over i of (i + 1) x_i for scalars x_i.
struct WeightedSum {
  static constexpr const char* name = "weighted_sum";

  Tensor forward(std::span<const Tensor> inputs) {
    double sum = 0.0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      sum += static_cast<double>(i + 1) * inputs[i].item();
    }
    return Tensor::scalar(sum, DType::float64);
  }
  void backward(const Tensor& dy, std::span<const Gradient> gradients) const {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i]) {
        gradients[i].target<double>().put(0, static_cast<double>(i + 1) * dy.item());
      }
    }
  }
};

}  // namespace

TEST_CASE("an operation without a name does not compile") {
  struct Nameless {
    Tensor forward(const Tensor& x) { return x; }
    void backward(const Tensor&, Gradient) const {}
  };
  struct NamedByFunction : Nameless {
    static constexpr const char* name() { return "a function"; }
  };
  static_assert(!detail::NamedOperation<Nameless>);
  static_assert(!detail::NamedOperation<NamedByFunction>);
}

TEST_CASE("backward gets a Gradient that is true for each input that requires a gradient") {
  std::vector<bool> wanted;
  const Tensor a = leaf(3.0);
  const Tensor b = Tensor::scalar(4.0, DType::float64);
  {
    Tape tape;
    const Tensor y = apply(AddTwice{&wanted}, a, b);
    CHECK(y.item() == 11.0);
    tape.backward(y);
    CHECK(wanted == std::vector<bool>{true, false});
  }
  Tape tape;
  tape.backward(apply(AddTwice{&wanted}, b, a));
  CHECK(wanted == std::vector<bool>{false, true});
  check_values(a.grad(), {1.0 + 2.0});
  Tape without_second;
  without_second.backward(apply(AddTwice{&wanted}, a, Tensor()));
  CHECK(wanted == std::vector<bool>{true, false});
  check_values(a.grad(), {1.0 + 2.0 + 1.0});
}

TEST_CASE("an operation on a list computes a gradient for each input that requires a gradient") {
  const std::vector<Tensor> inputs = {leaf(1.0), Tensor::scalar(1.0, DType::float64), leaf(1.0)};
  Tape tape;
  const Tensor y = apply_to_list(WeightedSum{}, inputs);
  CHECK(y.item() == 6.0);
  tape.backward(square(y));
  check_values(inputs[0].grad(), {12.0});
  CHECK_FALSE(inputs[1].grad().defined());
  check_values(inputs[2].grad(), {36.0});
}

TEST_CASE("an operation on a list is not recorded if no input requires a gradient") {
  const std::vector<Tensor> inputs = {Tensor::scalar(1.0, DType::float64)};
  const Tape tape;
  CHECK_FALSE(apply_to_list(WeightedSum{}, inputs).requires_grad());
  CHECK_FALSE(apply_to_list(WeightedSum{}, std::span<const Tensor>()).requires_grad());
  CHECK(tape.size() == 0);
}

/// x^3, composed of operations. If they were recorded, the error would differ. Backward ignores
/// that the operand may have been broadcast.
struct Cubed {
  static constexpr const char* name = "cubed";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return x * x * x;
  }
  void backward(const Tensor& dy, Gradient dx) const { dx.add(3.0 * x * x * dy); }
};

TEST_CASE("forward may call other operations, which are not recorded") {
  const Tensor x = leaf(2.0);
  Tape tape;
  const Tensor y = apply(Cubed{}, x);
  CHECK(tape.size() == 1);
  tape.backward(y);
  check_values(x.grad(), {12.0});
  CHECK(execution_context().tape == &tape);
}

/// An operation whose forward returns its input.
struct Same {
  static constexpr const char* name = "same";
  Tensor forward(const Tensor& x) { return x; }
  void backward(const Tensor& dy, Gradient dx) const { dx.add(dy); }
};

TEST_CASE("the error for a forward that returns one of its inputs names the operation") {
  const Tensor x = leaf(2.0);
  const Tape tape;
  check_error<ValueError>("same:|forward returned one of its inputs", [&] { apply(Same{}, x); });
}

/// An operation that uses an uninitialized member.
struct WithoutMember {
  static constexpr const char* name = "without_member";
  Tensor member{};
  Tensor forward(const Tensor& x) { return x.viewed_as(member.shape()); }
  void backward(const Tensor&, Gradient) const {}
};

TEST_CASE("the error for a forward that uses an empty member tensor names the operation") {
  check_error<EmptyTensorError>("without_member:|a Tensor that forward uses is an empty Tensor",
                                [&] { apply(WithoutMember{}, leaf(2.0)); });
}

/// a + b with a given backward.
struct SumWith {
  static constexpr const char* name = "sum_with";
  void (*backward_of)(const Tensor& dy, Gradient da, Gradient db);

  Tensor forward(const Tensor& a, const Tensor& b) { return a + b; }
  void backward(const Tensor& dy, Gradient da, Gradient db) const { backward_of(dy, da, db); }
};

TEST_CASE("an error in backward, or a gradient of a wrong shape, names the operation") {
  const Tensor a = Tensor::zeros({2, 3}, DType::float64).set_requires_grad(true);
  const Tensor b = Tensor::zeros({3}, DType::float64).set_requires_grad(true);
  const auto run = [&](auto backward_of) {
    Tape tape;
    const Tensor y = apply(SumWith{backward_of}, a, b);
    tape.backward(y, Tensor::ones({2, 3}, DType::float64));
  };
  check_error<ShapeError>("sum_with: backward:|2|(2, 3)|(3)", [&] {
    run([](const Tensor& dy, Gradient, Gradient db) { db.add(dy); });
  });
  check_error<DTypeError>("sum_with: backward:|1|float32|float64", [&] {
    run([](const Tensor& dy, Gradient da, Gradient) { da.add(dy.detach().to(DType::float32)); });
  });
  check_error<ShapeError>("sum_with: backward: add: shapes (2, 3) and (2) do not", [&] {
    run([](const Tensor& dy, Gradient, Gradient) {
      (void)(dy + Tensor::zeros({2}, DType::float64));
    });
  });
  const std::string path = "encoder.ff";
  const LayerPath here(path);
  check_error<ValueError>("encoder.ff: sum_with: backward:|no luck", [&] {
    run([](const Tensor&, Gradient, Gradient) { throw ValueError("no luck"); });
  });
}

/// An operation whose backward gives input 2 a gradient of a wrong shape.
struct Broken {
  static constexpr const char* name = "broken";
  Tensor forward(std::span<const Tensor> inputs) { return inputs[0].detach().to(DType::float64); }
  void backward(const Tensor&, std::span<const Gradient> gradients) const {
    gradients[1].add(Tensor::zeros({2}, DType::float64));
  }
};

TEST_CASE("an error in the backward pass of a list names the input, counted from 1") {
  const std::vector<Tensor> inputs{leaf(1.0), leaf(2.0)};
  Tape tape;
  const Tensor y = apply_to_list(Broken{}, inputs);
  check_error<ShapeError>("broken: backward:|2|(2)", [&] { tape.backward(y); });
}

namespace {

GradientSlot leaf_slot(const Shape& shape, DType dtype) {
  return {shape, dtype, GradientSlot::Origin::leaf};
}

}  // namespace

TEST_CASE("the first contribution to a gradient is written, and later contributions are added") {
  GradientSlot slot = leaf_slot({2}, DType::float32);
  CHECK_FALSE(slot.filled());
  const auto first = slot.target<float>();
  CHECK_FALSE(first.add);
  first.put(0, 1.0F);
  first.put(1, 2.0F);
  CHECK(slot.filled());
  const auto second = slot.target<float>();
  CHECK(second.add);
  second.put(0, 10.0F);
  second.put(1, 20.0F);
  check_values(slot.value(), {11.0, 22.0});
}

TEST_CASE("a leaf copies a contribution, other tensors share it; neither writes to it") {
  using Origin = GradientSlot::Origin;
  for (const Origin origin : {Origin::leaf, Origin::operation}) {
    const DType dtype = DType::float32;
    GradientSlot slot({3}, dtype, origin);
    const Tensor g = Tensor::from({3}, {1.0, 2.0, 3.0}, dtype);
    slot.add(g);
    CHECK((slot.value().memory().data() == g.memory().data()) == (origin == Origin::operation));
    slot.add(g);
    check_values(slot.value(), {2.0, 4.0, 6.0});
    check_values(g, {1.0, 2.0, 3.0});
  }
}

TEST_CASE("a contribution of the wrong shape or element type is rejected") {
  GradientSlot slot = leaf_slot({3}, DType::float32);
  check_error<ShapeError>("gradient:|(1)|(3)",
                          [&] { slot.add(Tensor::zeros({1}, DType::float32)); });
  check_error<DTypeError>("gradient:|float64|float32",
                          [&] { slot.add(Tensor::zeros({3}, DType::float64)); });
}

TEST_CASE("later contributions do not change the values of a gradient that was returned before") {
  GradientSlot slot = leaf_slot({1}, DType::float64);
  slot.add(Tensor::from({1}, {1.0}, DType::float64));
  const Tensor before = slot.value();
  slot.add(Tensor::from({1}, {5.0}, DType::float64));
  check_values(before, {1.0});
  check_values(slot.value(), {6.0});
}

TEST_CASE(
    "after clear(), the next contribution is written, to the same memory if move_into() set it") {
  GradientSlot slot = leaf_slot({2}, DType::float64);
  const kernels::Memory place(64);
  slot.add(Tensor::from({2}, {1.0, 2.0}, DType::float64));
  slot.move_into(place, 16);
  check_values(slot.value(), {1.0, 2.0});
  slot.clear();
  CHECK_FALSE(slot.filled());
  slot.add(Tensor::from({2}, {3.0, 4.0}, DType::float64));
  check_values(slot.value(), {3.0, 4.0});
  CHECK(slot.value().memory().data() == place.data());
  CHECK(slot.value().byte_offset() == 16);
}

TEST_CASE("clear() releases the memory of a gradient") {
  GradientSlot slot = leaf_slot({1000}, DType::float64);
  const std::size_t before = kernels::memory_statistics().bytes_in_use;
  slot.target<double>();
  CHECK(kernels::memory_statistics().bytes_in_use >= before + 8000);
  slot.clear();
  CHECK(kernels::memory_statistics().bytes_in_use == before);
}

TEST_CASE("a Gradient that is not needed is false, has no target and ignores contributions") {
  const Gradient unwanted;
  CHECK_FALSE(unwanted);
  unwanted.add(Tensor::scalar(1.0, DType::float64));
  CHECK_FALSE(unwanted.target<float>());
}
