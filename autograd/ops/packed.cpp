// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/packed.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/copy.h"
#include "autograd/kernels/memory.h"
#include "autograd/operation.h"

namespace tapestry {
namespace {

/// Positions of the vectors of all sequences, with padding and without.
struct Layout {
  std::vector<std::size_t, kernels::PoolAllocator<std::size_t>> lengths;
  std::size_t n, d;

  Layout(const char* operation, std::span<const std::int32_t> given, std::size_t positions,
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
  static constexpr const char* formula = "y = the vectors of all sequences, without padding";
  static constexpr const char* derivative = "dL/dx = dL/dy at positions of sequences, 0 in padding";
  Layout layout;

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
  static constexpr const char* formula = "y = the sequences with padding, which is 0";
  static constexpr const char* derivative = "dL/dx = dL/dy without padding";
  Layout layout;

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
