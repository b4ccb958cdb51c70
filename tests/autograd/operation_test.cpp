#include "autograd/operation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "autograd/ops/elementwise.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// a + 2 b, or a if b is absent; notes which gradients were wanted.
struct AddTwice {
  static constexpr const char* name = "add_twice";
  std::vector<bool>* wanted;

  Tensor forward(const Tensor& a, const Tensor& b) {
    return Tensor::scalar(a.item() + (b ? 2.0 * b.item() : 0.0), DType::float64);
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

Tensor leaf(double value) { return Tensor::scalar(value, DType::float64).require_gradient(); }

}  // namespace

TEST_CASE("an operation is told which gradients are wanted") {
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
  check_values(a.gradient(), {1.0 + 2.0});
}

/// a b for scalars; backward adds to both gradients whether they are wanted or not.
struct CarelessProduct {
  static constexpr const char* name = "careless_product";
  Tensor a, b;

  Tensor forward(const Tensor& left, const Tensor& right) {
    a = left;
    b = right;
    return Tensor::scalar(a.item() * b.item(), DType::float64);
  }
  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    da.add(Tensor::scalar(dy.item() * b.item(), DType::float64));
    db.add(Tensor::scalar(dy.item() * a.item(), DType::float64));
  }
};

TEST_CASE("a contribution to a gradient that is unwanted is ignored") {
  const Tensor a = leaf(3.0);
  const Tensor b = Tensor::scalar(4.0, DType::float64);
  {
    Tape tape;
    tape.backward(apply(CarelessProduct{}, a, b));
  }
  CHECK(a.gradient().item() == 4.0);
}

TEST_CASE("the gradient of an absent operand is unwanted") {
  std::vector<bool> wanted;
  const Tensor a = leaf(3.0);
  Tape tape;
  tape.backward(apply(AddTwice{&wanted}, a, Tensor()));
  CHECK(wanted == std::vector<bool>{true, false});
  check_values(a.gradient(), {1.0});
}

TEST_CASE("an operation on a list gives each input that wants one its gradient") {
  const std::vector<Tensor> inputs = {leaf(1.0), Tensor::scalar(1.0, DType::float64), leaf(1.0)};
  Tape tape;
  const Tensor y = apply_to_list(WeightedSum{}, inputs);
  CHECK(y.item() == 6.0);
  tape.backward(square(y));
  check_values(inputs[0].gradient(), {12.0});
  CHECK_FALSE(inputs[1].gradient());
  check_values(inputs[2].gradient(), {36.0});
}

TEST_CASE("a tensor that stands twice in a list gets both contributions") {
  const Tensor x = leaf(1.0);
  Tape tape;
  tape.backward(apply_to_list(WeightedSum{}, std::vector<Tensor>{x, x, x}));
  check_values(x.gradient(), {6.0});
}

TEST_CASE("an operation on a list that needs no gradient is not recorded") {
  const std::vector<Tensor> inputs = {Tensor::scalar(1.0, DType::float64)};
  const Tape tape;
  CHECK_FALSE(apply_to_list(WeightedSum{}, inputs).requires_gradient());
  CHECK_FALSE(apply_to_list(WeightedSum{}, std::span<const Tensor>()).requires_gradient());
  CHECK(tape.size() == 0);
}
