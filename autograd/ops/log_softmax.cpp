#include "autograd/ops/log_softmax.h"

#include "autograd/kernels/parallel.h"
#include "autograd/kernels/softmax.h"
#include "autograd/operation.h"
#include "autograd/ops/rows.h"

namespace tapestry {
namespace {

struct LogSoftmax {
  static constexpr const char* name = "log_softmax";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    const auto [rows, n] = rows_of(name, x);
    y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&, rows = rows, n = n]<class T>() {
      const T* in = x.values<T>().data();
      T* out = y.mutable_values<T>().data();
      kernels::parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
        for (std::size_t r = begin; r < end; ++r) {
          kernels::log_softmax_row(n, in + r * n, out + r * n);
        }
      });
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const auto [rows, n] = rows_of(name, dy);
    dispatch(dy.dtype(), [&, rows = rows, n = n]<class T>() {
      const T* log_weights = y.values<T>().data();
      const T* g = dy.values<T>().data();
      const kernels::Target<T> out = dx.target<T>();
      kernels::parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
        for (std::size_t r = begin; r < end; ++r) {
          kernels::log_softmax_row_backward(n, log_weights + r * n, g + r * n, out + r * n);
        }
      });
    });
  }
};

}  // namespace

Tensor log_softmax(const Tensor& x) { return apply(LogSoftmax{}, x); }

}  // namespace tapestry
