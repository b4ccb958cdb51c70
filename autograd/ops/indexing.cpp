// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/indexing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/frozen_branches.h"
#include "autograd/kernels/copy.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/softmax.h"
#include "autograd/operation.h"

namespace tapestry {
namespace {

/// Throws ValueError, naming `operation` and the place of the first index that is not in
/// [0, extent). `which` is the operation's name for an index.
void require_indices(const char* operation, const char* which, const Ids& ids, std::size_t extent) {
  const auto outside = [&](std::int32_t id) {
    return id < 0 || static_cast<std::size_t>(id) >= extent;
  };
  const auto found = std::find_if(ids.begin(), ids.end(), outside);
  if (found == ids.end()) return;
  const auto place = static_cast<std::size_t>(found - ids.begin());
  throw ValueError(fmt::format("{}: {} {} is {}, expected 0 <= {} < {}", operation, which,
                               ids.place(place), *found, which, extent));
}

/// y[o, i, :] = scale * x[o, ids[i], :], where o is an index of the axes before `axis`, and : are
/// the axes after it.
struct Lookup {
  std::size_t axis;
  std::vector<std::int32_t, kernels::PoolAllocator<std::int32_t>> ids;  // row-major
  Shape ids_shape;
  std::optional<std::int32_t> padding_id = std::nullopt;  // id whose row gets no gradient
  double scale = 1.0;

  Tensor forward(const Tensor& x) const {
    const Sizes n = sizes(x.shape());
    Tensor y = Tensor::empty(result_shape(x.shape()), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      const T* const in = x.values<T>().data();
      T* const out = y.mutable_values<T>().data();
      kernels::parallel_rows(n.outer, n.y_block, [&](std::size_t begin, std::size_t end) {
        for (std::size_t o = begin; o < end; ++o) {
          kernels::embedding(ids, n.inner, scale, in + o * n.x_block, out + o * n.y_block);
        }
      });
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const Sizes n = sizes(dx.shape());
    dispatch(dy.dtype(), [&]<class T>() {
      const T* const in = dy.values<T>().data();
      const kernels::Target<T> out = dx.target<T>();
      kernels::parallel_rows(n.outer, n.x_block, [&](std::size_t begin, std::size_t end) {
        for (std::size_t o = begin; o < end; ++o) {
          kernels::embedding_backward(ids, dx.shape()[axis], n.inner, padding_id, scale,
                                      in + o * n.y_block, out + o * n.x_block);
        }
      });
    });
  }

 private:
  /// Number of elements of the axes before and after `axis`, and of x and y for each o.
  struct Sizes {
    std::size_t outer, inner, x_block, y_block;
  };
  Sizes sizes(const Shape& x) const {
    const std::size_t inner = x.product(axis + 1, x.rank());
    return {.outer = x.product(0, axis),
            .inner = inner,
            .x_block = x[axis] * inner,
            .y_block = ids.size() * inner};
  }

  Shape result_shape(const Shape& x) const {
    Shape shape = x.erased(axis);
    for (std::size_t k = 0; k < ids_shape.rank(); ++k)
      shape = shape.inserted(axis + k, ids_shape[k]);
    return shape;
  }
};

struct IndexSelect : Lookup {
  static constexpr const char* name = "index_select";
  static constexpr const char* formula = "y[…, i, …] = x[…, indexᵢ, …]";
  static constexpr const char* derivative =
      "dL/dx[…, j, …] = Σ dL/dy[…, i, …] over the i with indexᵢ = j";
};

struct Embedding : Lookup {
  static constexpr const char* name = "embedding";

  std::string formula() const { return fmt::format("yᵢ = {}W[idᵢ]", factor()); }
  std::string derivative() const {
    const char* padding = padding_id ? ", 0 for padding" : "";
    return fmt::format("dL/dW[j] = {}Σ dL/dyᵢ over the i with idᵢ = j{}", factor(), padding);
  }

 private:
  std::string factor() const { return scale == 1.0 ? "" : fmt::format("{:.6g} · ", scale); }
};

}  // namespace

Tensor index_select(const Tensor& x, std::ptrdiff_t axis, const Ids& index) {
  const std::size_t along = resolve_axis(IndexSelect::name, axis, x.rank());
  require_indices(IndexSelect::name, "index", index, x.shape()[along]);
  return apply(
      IndexSelect{{.axis = along, .ids = {index.begin(), index.end()}, .ids_shape = index.shape()}},
      x);
}

Tensor Tensor::operator[](const Ids& index) const { return index_select(*this, 0, index); }

Tensor embedding(const Tensor& weight, const Ids& ids, std::optional<std::int32_t> padding_id,
                 double scale) {
  if (weight.rank() != 2) {
    throw ShapeError(fmt::format("{}: weight has shape {}, expected (vocabulary, d)",
                                 Embedding::name, to_string(weight.shape())));
  }
  require_indices(Embedding::name, "id", ids, weight.shape()[0]);
  return apply(Embedding{{.axis = 0,
                          .ids = {ids.begin(), ids.end()},
                          .ids_shape = ids.shape(),
                          .padding_id = padding_id,
                          .scale = scale}},
               weight);
}

namespace {

using Positions = std::vector<std::size_t, kernels::PoolAllocator<std::size_t>>;

struct Gather {
  static constexpr const char* name = "gather";
  static constexpr const char* formula = "y[i] = x[indexᵢ] along an axis";
  static constexpr const char* derivative = "dL/dx[j] = Σ dL/dy[i] over the i with indexᵢ = j";
  Positions positions;  // position in x of each element of the result
  Shape shape;          // shape of the result
  std::size_t axis;

  Tensor forward(const Tensor& x) const {
    Tensor y = Tensor::empty(shape, x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      kernels::gather(positions, x.values<T>().data(), y.mutable_values<T>().data());
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    dispatch(dy.dtype(), [&]<class T>() {
      kernels::gather_backward(positions, shape.product(axis, shape.rank()), dy.values<T>().data(),
                               dx.shape().size(), dx.target<T>());
    });
  }
};

void require_gather_shape(const Shape& x, std::size_t axis, const Shape& index) {
  bool fits = index.rank() == x.rank();
  for (std::size_t k = 0; fits && k < x.rank(); ++k) fits = k == axis || index[k] <= x[k];
  if (fits) return;
  throw ShapeError(
      fmt::format("{}: index has shape {}, expected the {} axes of x, whose shape is {}, and at "
                  "most its extents except along axis {}",
                  Gather::name, to_string(index), x.rank(), to_string(x), axis));
}

/// For each element of `index`, the position that it selects in a tensor of shape x.
Positions gather_positions(const Shape& x, std::size_t axis, const Ids& index) {
  const Shape& shape = index.shape();
  Positions positions(index.size());
  for (std::size_t p = 0; p < index.size(); ++p) {
    std::size_t quotient = p, stride = 1, position = 0;
    for (std::size_t k = x.rank(); k-- > 0; stride *= x[k]) {
      const std::size_t coordinate = quotient % shape[k];
      quotient /= shape[k];
      position += stride * (k == axis ? static_cast<std::size_t>(index[p]) : coordinate);
    }
    positions[p] = position;
  }
  return positions;
}

}  // namespace

Tensor gather(const Tensor& x, std::ptrdiff_t axis, const Ids& index) {
  const std::size_t along = resolve_axis(Gather::name, axis, x.rank());
  require_gather_shape(x.shape(), along, index.shape());
  require_indices(Gather::name, "index", index, x.shape()[along]);
  return apply(Gather{.positions = gather_positions(x.shape(), along, index),
                      .shape = index.shape(),
                      .axis = along},
               x);
}

namespace {

/// Whether a comes before b in descending order, where NaN comes first.
template <class T>
bool is_larger(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  return a > b;
}

/// Sets the indices of the k largest of n elements that are `stride` apart, in descending order,
/// plus the next index if n > k.
template <class T>
void sort_largest(const T* x, std::size_t n, std::size_t stride, std::size_t k,
                  std::vector<std::int32_t>& order) {
  order.resize(n);
  std::iota(order.begin(), order.end(), 0);
  const auto last = order.begin() + static_cast<std::ptrdiff_t>(std::min(k + 1, n));
  std::partial_sort(order.begin(), last, order.end(), [&](std::int32_t a, std::int32_t b) {
    const T u = x[static_cast<std::size_t>(a) * stride],
            v = x[static_cast<std::size_t>(b) * stride];
    return is_larger(u, v) || (!is_larger(v, u) && a < b);
  });
}

/// The indices of the k largest elements along an axis.
struct TopKIndices {
  static constexpr const char* name = "topk";
  std::size_t k, axis;
  std::vector<std::uint8_t> tied{};  // 1 for an element that equals a neighbor

  Ids forward(const Tensor& x) {
    const std::size_t n = x.shape()[axis], inner = x.shape().product(axis + 1, x.rank());
    Shape shape = x.shape();
    shape[axis] = k;
    Ids indices = Ids::zeros(shape);
    tied.resize(indices.size());
    dispatch(x.dtype(), [&]<class T>() {
      std::vector<std::int32_t> order;
      for (std::size_t row = 0; row < x.shape().product(0, axis) * inner; ++row) {
        const std::size_t outer = row / inner, i = row % inner;
        const T* const in = x.values<T>().data() + outer * n * inner + i;
        sort_largest(in, n, inner, k, order);
        const auto equal = [&](std::size_t a, std::size_t b) {
          return b < n && in[static_cast<std::size_t>(order[a]) * inner] ==
                              in[static_cast<std::size_t>(order[b]) * inner];
        };
        for (std::size_t j = 0; j < k; ++j) {
          const std::size_t position = (outer * k + j) * inner + i;
          indices[position] = order[j];
          tied[position] = equal(j, j + 1) || (j > 0 && equal(j - 1, j));
        }
      }
    });
    return indices;
  }

  void freeze(FrozenBranches& branches, Ids& indices, const Tensor&) const {
    const auto frozen = branches.next(name, indices.size(), [&](std::size_t p) {
      return tied[p] != 0 ? FrozenBranches::at_kink : indices[p];
    });
    for (std::size_t p = 0; p < indices.size(); ++p) {
      if (frozen[p] != FrozenBranches::at_kink) indices[p] = frozen[p];
    }
  }
};

}  // namespace

TopK topk(const Tensor& x, std::size_t k, std::ptrdiff_t axis) {
  const std::size_t along = resolve_axis(TopKIndices::name, axis, x.rank());
  const std::size_t n = x.shape()[along];
  if (k == 0 || k > n) {
    throw ValueError(
        fmt::format("topk: k is {}, expected 1 to {} (axis {} of x, whose shape is {})", k, n,
                    along, to_string(x.shape())));
  }
  Ids indices = apply_without_gradient(TopKIndices{.k = k, .axis = along}, x);
  Tensor values = gather(x, static_cast<std::ptrdiff_t>(along), indices);
  return {.values = std::move(values), .indices = std::move(indices)};
}

TopK topk_log_softmax(const Tensor& x, std::size_t k) {
  if (x.rank() == 0) throw ShapeError("topk_log_softmax: x is a scalar, expected (..., n)");
  const std::size_t n = x.shape().back();
  if (k == 0 || k > n) {
    throw ValueError(fmt::format("topk_log_softmax: k is {}, expected 1 to {} (x has shape {})", k,
                                 n, to_string(x.shape())));
  }
  if (is_recorded(x)) throw ValueError("topk_log_softmax: a tape records x, expected inference");
  const Shape shape = x.shape().with_last(k);
  TopK best{.values = Tensor::empty(shape, x.dtype()), .indices = Ids::zeros(shape)};
  dispatch(x.dtype(), [&]<class T>() {
    const T* const in = x.values<T>().data();
    T* const values = best.values.mutable_values<T>().data();
    std::int32_t* const ids = best.indices.data();
    kernels::parallel_rows(x.size() / n, n, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        kernels::top_log_softmax_row(n, k, in + row * n, ids + row * k, values + row * k);
      }
    });
  });
  return best;
}

Tensor one_hot(const Ids& ids, std::size_t classes, DType dtype) {
  require_indices("one_hot", "id", ids, classes);
  Tensor y = Tensor::zeros(ids.shape().inserted(ids.shape().rank(), classes), dtype);
  dispatch(dtype, [&]<class T>() {
    const auto out = y.mutable_values<T>();
    for (std::size_t p = 0; p < ids.size(); ++p) {
      out[p * classes + static_cast<std::size_t>(ids[p])] = T(1);
    }
  });
  return y;
}

Ids to_ids(const Tensor& x) {
  Ids ids = Ids::zeros(x.shape());
  dispatch(x.dtype(), [&]<class T>() {
    const auto values = x.values<T>();
    for (std::size_t p = 0; p < ids.size(); ++p) {
      const auto value = static_cast<double>(values[p]);
      if (!(value >= -0x1p31 && value < 0x1p31 && value == std::trunc(value))) {
        throw ValueError(fmt::format("to_ids: x{} is {}, expected a whole number in [-2^31, 2^31)",
                                     x.rank() == 0 ? "" : " " + place_in(x.shape(), p),
                                     printable(value)));
      }
      ids[p] = static_cast<std::int32_t>(value);
    }
  });
  return ids;
}

Tensor to_tensor(const Ids& ids, DType dtype) {
  Tensor y = Tensor::empty(ids.shape(), dtype);
  dispatch(dtype, [&]<class T>() {
    std::ranges::transform(ids, y.mutable_values<T>().begin(),
                           [](std::int32_t id) { return static_cast<T>(id); });
  });
  return y;
}

// ---- Sequences without padding.

namespace {

/// Positions of the vectors of all sequences, with padding and without.
struct PaddedLayout {
  std::vector<std::size_t, kernels::PoolAllocator<std::size_t>> lengths;
  std::size_t n, d;

  PaddedLayout(const char* operation, std::span<const std::int32_t> given, std::size_t positions,
               std::size_t width)
      : n(positions), d(width) {
    for (const std::int32_t length : given) {
      if (length < 0) {
        throw ValueError(fmt::format("{}: a length is {}, expected >= 0", operation, length));
      }
      lengths.push_back(std::min(static_cast<std::size_t>(length), n));
    }
  }

  std::size_t vectors() const {
    return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  }

  template <class T>
  void pack(const T* padded, kernels::Target<T> packed) const {
    for (const std::size_t length : lengths) {
      kernels::copy_rows(1, length * d, padded, n * d, packed, length * d);
      padded += n * d;
      packed = packed + length * d;
    }
  }

  template <class T>
  void pad(const T* packed, kernels::Target<T> padded) const {
    for (const std::size_t length : lengths) {
      kernels::pad_rows(1, length * d, packed, 0, padded, n * d);
      packed += length * d;
      padded = padded + n * d;
    }
  }
};

struct PackPadded {
  static constexpr const char* name = "pack_padded";
  static constexpr const char* formula = "y = x without the padding of its sequences";
  static constexpr const char* derivative = "dL/dx = dL/dy, 0 in the padding";
  PaddedLayout layout;

  Tensor forward(const Tensor& x) {
    Tensor y = Tensor::empty({layout.vectors(), layout.d}, x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      layout.pack<T>(x.values<T>().data(), {y.mutable_values<T>().data()});
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    dispatch(dy.dtype(), [&]<class T>() { layout.pad<T>(dy.values<T>().data(), dx.target<T>()); });
  }
};

struct PadPacked {
  static constexpr const char* name = "pad_packed";
  static constexpr const char* formula = "y = x with its sequences padded by 0";
  static constexpr const char* derivative = "dL/dx = dL/dy without padding";
  PaddedLayout layout;

  Tensor forward(const Tensor& y) {
    Tensor x = Tensor::empty({layout.lengths.size(), layout.n, layout.d}, y.dtype());
    dispatch(y.dtype(), [&]<class T>() {
      layout.pad<T>(y.values<T>().data(), {x.mutable_values<T>().data()});
    });
    return x;
  }

  void backward(const Tensor& dx, Gradient dy) const {
    dispatch(dx.dtype(), [&]<class T>() { layout.pack<T>(dx.values<T>().data(), dy.target<T>()); });
  }
};

}  // namespace

Tensor pack_padded(const Tensor& x, std::span<const std::int32_t> lengths) {
  if (x.rank() != 3 || x.shape()[0] != lengths.size()) {
    throw ShapeError(fmt::format("{}: x has shape {}, expected ({}, n, d) for {} lengths",
                                 PackPadded::name, to_string(x.shape()), lengths.size(),
                                 lengths.size()));
  }
  return apply(PackPadded{{PackPadded::name, lengths, x.shape()[1], x.shape()[2]}}, x);
}

Tensor pad_packed(const Tensor& y, std::span<const std::int32_t> lengths, std::size_t n) {
  PadPacked pad{{PadPacked::name, lengths, n, y.rank() == 2 ? y.shape()[1] : 0}};
  if (y.rank() != 2 || y.shape()[0] != pad.layout.vectors()) {
    throw ShapeError(
        fmt::format("{}: y has shape {}, expected ({}, d), the vectors of {} sentences",
                    PadPacked::name, to_string(y.shape()), pad.layout.vectors(), lengths.size()));
  }
  return apply(std::move(pad), y);
}

}  // namespace tapestry
