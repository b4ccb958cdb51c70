#include "autograd/ops/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/embedding.h"
#include "autograd/operation.h"

namespace tapestry {
namespace {

struct Embedding {
  static constexpr const char* name = "embedding";
  std::vector<std::int32_t, kernels::PoolAllocator<std::int32_t>> ids;  // row-major
  Shape ids_shape;
  std::optional<std::int32_t> padding_id;
  double scale;

  Tensor forward(const Tensor& weight) {
    const std::size_t d = weight.shape()[1];
    Tensor y = Tensor::empty(ids_shape.inserted(ids_shape.rank(), d), weight.dtype());
    dispatch(weight.dtype(), [&]<class T>() {
      kernels::embedding(ids, d, scale, weight.values<T>().data(), y.mutable_values<T>().data());
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dweight) const {
    const Shape& shape = dweight.shape();
    dispatch(dy.dtype(), [&]<class T>() {
      kernels::embedding_backward(ids, shape[0], shape[1], padding_id, scale, dy.values<T>().data(),
                                  dweight.target<T>());
    });
  }
};

void require_table(const Tensor& weight) {
  if (weight.rank() != 2) {
    throw ShapeError(fmt::format("{}: weight has shape {}, expected (vocabulary, d)",
                                 Embedding::name, to_string(weight.shape())));
  }
}

void require_ids(const Ids& ids, std::size_t vocabulary) {
  const auto outside = [&](std::int32_t id) {
    return id < 0 || static_cast<std::size_t>(id) >= vocabulary;
  };
  const auto found = std::find_if(ids.begin(), ids.end(), outside);
  if (found == ids.end()) return;
  const auto place = static_cast<std::size_t>(found - ids.begin());
  throw ValueError(fmt::format("{}: id {} is {}, expected 0 <= id < {}", Embedding::name,
                               ids.place(place), *found, vocabulary));
}

}  // namespace

Tensor embedding(const Tensor& weight, const Ids& ids, std::optional<std::int32_t> padding_id,
                 double scale) {
  require_table(weight);
  require_ids(ids, weight.shape()[0]);
  return apply(Embedding{.ids = {ids.begin(), ids.end()},
                         .ids_shape = ids.shape(),
                         .padding_id = padding_id,
                         .scale = scale},
               weight);
}

}  // namespace tapestry
