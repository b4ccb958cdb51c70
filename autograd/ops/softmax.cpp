#include "autograd/ops/softmax.h"

#include "autograd/kernels/softmax.h"
#include "autograd/operation.h"
#include "autograd/ops/detail/rows.h"

namespace tapestry {
namespace {

struct Softmax {
  static constexpr const char* name = "softmax";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    const Rows rows = require_rows(name, x);
    y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      const T* in = x.values<T>().data();
      T* out = y.mutable_values<T>().data();
      for_each_row(rows, [&](std::size_t at) { kernels::softmax_row(rows.n, in + at, out + at); });
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const Rows rows = require_rows(name, dy);
    dispatch(dy.dtype(), [&]<class T>() {
      const T* weights = y.values<T>().data();
      const T* g = dy.values<T>().data();
      const kernels::Target<T> out = dx.target<T>();
      for_each_row(rows, [&](std::size_t at) {
        kernels::softmax_row_backward(rows.n, weights + at, g + at, out + at);
      });
    });
  }
};

}  // namespace

Tensor softmax(const Tensor& x) { return apply(Softmax{}, x); }

namespace {

struct LogSoftmax {
  static constexpr const char* name = "log_softmax";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    const Rows rows = require_rows(name, x);
    y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      const T* in = x.values<T>().data();
      T* out = y.mutable_values<T>().data();
      for_each_row(rows,
                   [&](std::size_t at) { kernels::log_softmax_row(rows.n, in + at, out + at); });
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const Rows rows = require_rows(name, dy);
    dispatch(dy.dtype(), [&]<class T>() {
      const T* log_weights = y.values<T>().data();
      const T* g = dy.values<T>().data();
      const kernels::Target<T> out = dx.target<T>();
      for_each_row(rows, [&](std::size_t at) {
        kernels::log_softmax_row_backward(rows.n, log_weights + at, g + at, out + at);
      });
    });
  }
};

}  // namespace

Tensor log_softmax(const Tensor& x) { return apply(LogSoftmax{}, x); }

}  // namespace tapestry
