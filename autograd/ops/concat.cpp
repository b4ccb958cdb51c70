#include "autograd/ops/concat.h"

#include <fmt/format.h>

#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/copy.h"
#include "autograd/operation.h"

namespace tapestry {
namespace {

/// The result is walked as rows that begin at `axis`; each tensor has a part in every row.
struct Concat {
  static constexpr const char* name = "concat";
  std::size_t axis;
  std::vector<std::size_t, kernels::PoolAllocator<std::size_t>> parts{};  // elements in a row

  Tensor forward(std::span<const Tensor> tensors) {
    Shape shape = tensors[0].shape();
    shape[axis] = 0;
    for (const Tensor& tensor : tensors) {
      shape[axis] += tensor.shape()[axis];
      parts.push_back(tensor.shape().product(axis, tensor.rank()));
    }
    Tensor y = Tensor::empty(shape, tensors[0].dtype());
    dispatch(y.dtype(), [&]<class T>() {
      kernels::Target<T> out{y.mutable_values<T>().data()};
      for (std::size_t k = 0; k < tensors.size(); out = out + parts[k++]) {
        kernels::copy_rows(rows(y), parts[k], tensors[k].values<T>().data(), parts[k], out,
                           row_length(y));
      }
    });
    return y;
  }

  void backward(const Tensor& dy, std::span<const Gradient> gradients) const {
    dispatch(dy.dtype(), [&]<class T>() {
      const T* in = dy.values<T>().data();
      for (std::size_t k = 0; k < gradients.size(); in += parts[k++]) {
        if (!gradients[k]) continue;
        kernels::copy_rows(rows(dy), parts[k], in, row_length(dy), gradients[k].target<T>(),
                           parts[k]);
      }
    });
  }

 private:
  std::size_t rows(const Tensor& y) const { return y.shape().product(0, axis); }
  std::size_t row_length(const Tensor& y) const { return y.shape().product(axis, y.rank()); }
};

void require_fitting(const Tensor& tensor, const Tensor& first, std::size_t index,
                     std::size_t axis) {
  common_dtype(Concat::name, first, tensor);
  const Shape& expected = first.shape();
  bool fits = tensor.rank() == expected.rank();
  for (std::size_t k = 0; fits && k < expected.rank(); ++k) {
    fits = k == axis || tensor.shape()[k] == expected[k];
  }
  if (!fits) {
    throw ShapeError(
        fmt::format("{}: tensor {} has shape {}, expected {} as tensor 0 except along axis {}",
                    Concat::name, index, to_string(tensor.shape()), to_string(expected), axis));
  }
}

}  // namespace

Tensor concat(std::span<const Tensor> tensors, std::ptrdiff_t axis) {
  if (tensors.empty()) throw ValueError("concat: no tensors given, expected at least 1");
  const std::size_t along = resolve_axis(Concat::name, axis, tensors[0].rank());
  for (std::size_t k = 1; k < tensors.size(); ++k) {
    require_fitting(tensors[k], tensors[0], k, along);
  }
  return apply_to_list(Concat{along}, tensors);
}

}  // namespace tapestry
