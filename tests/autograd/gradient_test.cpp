#include "autograd/gradient.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

GradientSlot leaf_slot(const Shape& shape, DType dtype) {
  return {shape, dtype, GradientSlot::Origin::leaf};
}

}  // namespace

TEST_CASE("the first contribution to a gradient writes, later ones add") {
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

TEST_CASE("a contribution of another shape or element type is refused") {
  GradientSlot slot = leaf_slot({3}, DType::float32);
  CHECK_THROWS_WITH_AS(slot.add(Tensor::zeros({1}, DType::float32)),
                       "gradient: a contribution has shape (1), expected (3)", ShapeError);
  CHECK_THROWS_WITH_AS(slot.add(Tensor::zeros({3}, DType::float64)),
                       "gradient: a contribution is float64, expected float32", DTypeError);
}

TEST_CASE("the values of a gradient that was handed out do not change with later contributions") {
  GradientSlot slot = leaf_slot({1}, DType::float64);
  slot.add(Tensor::from({1}, {1.0}, DType::float64));
  const Tensor before = slot.value();
  slot.add(Tensor::from({1}, {5.0}, DType::float64));
  check_values(before, {1.0});
  check_values(slot.value(), {6.0});
}

TEST_CASE("after clear() the next contribution writes, at the same place if one was given") {
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

TEST_CASE("a Gradient that is not needed is false and has no target") {
  const Gradient unwanted;
  CHECK_FALSE(unwanted);
  CHECK_FALSE(unwanted.target<float>());
}
