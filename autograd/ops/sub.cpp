#include "autograd/ops/sub.h"

#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct Sub {
  static constexpr const char* name = "sub";

  Tensor forward(const Tensor& a, const Tensor& b) {
    return broadcast_values(name, [](const auto& x, const auto& y) { return x - y; }, a, b);
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    if (da) add_unbroadcast(da, dy);
    if (db) add_unbroadcast(db, map_values([](const auto& g) { return -g; }, dy));
  }
};

}  // namespace

Tensor sub(const Tensor& a, const Tensor& b) { return apply(Sub{}, a, b); }

}  // namespace tapestry
