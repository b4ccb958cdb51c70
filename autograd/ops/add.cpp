#include "autograd/ops/add.h"

#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct Add {
  static constexpr const char* name = "add";

  Tensor forward(const Tensor& a, const Tensor& b) {
    return broadcast_values(name, [](const auto& x, const auto& y) { return x + y; }, a, b);
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    if (da) add_unbroadcast(da, dy);
    if (db) add_unbroadcast(db, dy);
  }
};

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return apply(Add{}, a, b); }

}  // namespace tapestry
