// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/copy.h"

#include <algorithm>
#include <array>
#include <vector>

#include "autograd/kernels/broadcast.h"
#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

template <class T>
void copy_row(std::size_t n, const T* in, Target<T> out) {
  map(
      n, out, [](const Vec<T>& v) { return v; }, in);
}

}  // namespace

template <class T>
void copy_rows(std::size_t rows, std::size_t n, const T* in, std::size_t in_stride, Target<T> out,
               std::size_t out_stride) {
  if (rows == 1) {
    parallel_ranges(n, elements_per_piece, [&](std::size_t begin, std::size_t end) {
      copy_row(end - begin, in + begin, out + begin);
    });
    return;
  }
  parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) copy_row(n, in + r * in_stride, out + r * out_stride);
  });
}

template <class T>
void pad_rows(std::size_t rows, std::size_t n, const T* in, std::size_t first, Target<T> out,
              std::size_t out_n) {
  copy_rows(rows, n, in, n, out + first, out_n);
  if (out.add) return;
  parallel_rows(rows, out_n - n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      T* const row = out.data + r * out_n;
      std::fill(row, row + first, T(0));
      std::fill(row + first + n, row + out_n, T(0));
    }
  });
}

namespace {

/// One axis of the result, with its strides in the input and in the result.
struct Axis {
  std::size_t extent, in_stride, out_stride;
};

/// The axes of the result from the first to the last, without axes of extent 1; axes that are
/// adjacent in the same order in the input and in the result are merged.
class Plan {
 public:
  static constexpr std::size_t max_axes = 8;

  Plan(std::span<const std::size_t> extents, std::span<const std::size_t> axes) {
    std::array<std::size_t, max_axes> in_strides{};
    std::size_t in_stride = 1;
    for (std::size_t axis = extents.size(); axis-- > 0; in_stride *= extents[axis]) {
      in_strides[axis] = in_stride;
    }
    for (const std::size_t axis : axes) append(extents[axis], in_strides[axis]);
    if (count_ == 0) append_new(1, 1);
    std::size_t out_stride = 1;
    for (std::size_t k = count_; k-- > 0; out_stride *= axes_[k].extent) {
      axes_[k].out_stride = out_stride;
    }
  }

  const Axis& last() const { return axes_[count_ - 1]; }

  /// Removes the last axis and returns it.
  Axis take_last() { return axes_[--count_]; }

  /// Removes the axis along which the input is contiguous and returns it.
  Axis take_contiguous() {
    Axis* const found = std::find_if(axes_.data(), axes_.data() + count_,
                                     [](const Axis& axis) { return axis.in_stride == 1; });
    const Axis axis = *found;
    std::copy(found + 1, axes_.data() + count_--, found);
    return axis;
  }

  /// Number of index combinations of the remaining axes, and the offsets of combination `index`.
  std::size_t places() const {
    std::size_t result = 1;
    for (std::size_t k = 0; k < count_; ++k) result *= axes_[k].extent;
    return result;
  }
  struct Offsets {
    std::size_t in = 0, out = 0;
  };
  Offsets offsets(std::size_t index) const {
    Offsets result;
    for (std::size_t k = count_; k-- > 0; index /= axes_[k].extent) {
      const std::size_t along = index % axes_[k].extent;
      result.in += along * axes_[k].in_stride;
      result.out += along * axes_[k].out_stride;
    }
    return result;
  }

 private:
  void append(std::size_t extent, std::size_t in_stride) {
    if (extent == 1) return;
    if (count_ > 0 && axes_[count_ - 1].in_stride == extent * in_stride) {
      axes_[count_ - 1].extent *= extent;
      axes_[count_ - 1].in_stride = in_stride;
    } else {
      append_new(extent, in_stride);
    }
  }
  void append_new(std::size_t extent, std::size_t in_stride) {
    axes_[count_++] = {.extent = extent, .in_stride = in_stride, .out_stride = 0};
  }

  std::array<Axis, max_axes> axes_{};
  std::size_t count_ = 0;
};

template <class T>
void move_rows(Plan plan, const T* in, Target<T> out) {
  const std::size_t n = plan.take_last().extent;
  parallel_rows(plan.places(), n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const auto [in_offset, out_offset] = plan.offsets(row);
      map(
          n, out + out_offset, [](const Vec<T>& v) { return v; }, in + in_offset);
    }
  });
}

/// Number of elements along a side of a tile: one cache line.
template <class T>
inline constexpr std::size_t tile = 64 / sizeof(T);

/// out[r, c] = in[c, r] for a tile of `rows` x `columns`; `in` and `out` have separate row strides.
template <class T>
void transpose_tile(std::size_t rows, std::size_t columns, const T* in, std::size_t in_stride,
                    Target<T> out, std::size_t out_stride) {
  alignas(64) T buffer[tile<T>][tile<T>];
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t r = 0; r < rows; ++r) buffer[r][c] = in[c * in_stride + r];
  }
  for (std::size_t r = 0; r < rows; ++r) {
    map(
        columns, out + r * out_stride, [](const Vec<T>& v) { return v; }, buffer[r]);
  }
}

template <class T>
void transpose_tiles(Plan plan, const T* in, Target<T> out) {
  const Axis columns = plan.take_last();
  const Axis rows = plan.take_contiguous();
  const std::size_t strips = (rows.extent + tile<T> - 1) / tile<T>;
  const auto transpose_strip = [&](std::size_t strip) {
    const auto [in_offset, out_offset] = plan.offsets(strip / strips);
    const std::size_t first = strip % strips * tile<T>;
    for (std::size_t c = 0; c < columns.extent; c += tile<T>) {
      transpose_tile(std::min(tile<T>, rows.extent - first), std::min(tile<T>, columns.extent - c),
                     in + (in_offset + first + c * columns.in_stride), columns.in_stride,
                     out + (out_offset + first * rows.out_stride + c), rows.out_stride);
    }
  };
  parallel_rows(plan.places() * strips, tile<T> * columns.extent,
                [&](std::size_t begin, std::size_t end) {
                  for (std::size_t strip = begin; strip < end; ++strip) transpose_strip(strip);
                });
}

}  // namespace

template <class T>
void permute(std::span<const std::size_t> extents, std::span<const std::size_t> axes, const T* in,
             Target<T> out) {
  if (std::ranges::find(extents, std::size_t{0}) != extents.end()) return;
  const Plan plan(extents, axes);
  if (plan.last().in_stride == 1) {
    move_rows(plan, in, out);
  } else {
    transpose_tiles(plan, in, out);
  }
}

namespace {

using Indices = std::vector<std::size_t, PoolAllocator<std::size_t>>;

/// The positions of each id, found by a counting sort, which keeps their order.
class PositionsById {
 public:
  PositionsById(std::span<const std::int32_t> ids, std::size_t vocabulary)
      : ends_(vocabulary + 1, 0), positions_(ids.size()) {
    for (const std::int32_t id : ids) ++ends_[static_cast<std::size_t>(id) + 1];
    for (std::size_t v = 0; v < vocabulary; ++v) ends_[v + 1] += ends_[v];
    for (std::size_t p = 0; p < ids.size(); ++p) {
      positions_[ends_[static_cast<std::size_t>(ids[p])]++] = p;
    }
  }

  std::span<const std::size_t> operator[](std::size_t id) const {
    const std::size_t begin = id == 0 ? 0 : ends_[id - 1];
    return std::span(positions_).subspan(begin, ends_[id] - begin);
  }

 private:
  Indices ends_;  // end of the positions of each id; while sorting, place of its next position
  Indices positions_;
};

/// out = scale * the sum of these rows, restricted to n elements each; rows start d elements apart.
template <class T>
void sum_rows(std::span<const std::size_t> rows, std::size_t d, std::size_t n, double scale,
              const T* in, Target<T> out) {
  if (rows.empty() && !out.add) std::fill_n(out.data, n, T(0));
  const Vec<T> factor(static_cast<T>(scale));
  for (const std::size_t row : rows) {
    map(
        n, out, [&](const Vec<T>& v) { return v * factor; }, in + row * d);
    out.add = true;
  }
}

inline constexpr std::size_t columns_per_piece = 128;
inline constexpr std::size_t ids_per_piece = elements_per_piece / columns_per_piece;

}  // namespace

template <class T>
void embedding(std::span<const std::int32_t> ids, std::size_t d, double scale, const T* weight,
               T* y) {
  const Vec<T> factor(static_cast<T>(scale));
  parallel_rows(ids.size(), d, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      map(
          d, Target<T>{y + p * d}, [&](const Vec<T>& v) { return v * factor; },
          weight + static_cast<std::size_t>(ids[p]) * d);
    }
  });
}

// A piece is a block of ids and columns, so that there are enough pieces even for a small
// vocabulary.
template <class T>
void embedding_backward(std::span<const std::int32_t> ids, std::size_t vocabulary, std::size_t d,
                        std::optional<std::int32_t> padding_id, double scale, const T* dy,
                        Target<T> dweight) {
  const PositionsById positions(ids, vocabulary);
  const std::size_t strips = (d + columns_per_piece - 1) / columns_per_piece;
  const std::size_t blocks = (vocabulary + ids_per_piece - 1) / ids_per_piece;
  parallel_for(blocks * strips, [&](std::size_t piece) {
    const std::size_t column = piece % strips * columns_per_piece;
    const std::size_t n = std::min(columns_per_piece, d - column);
    const std::size_t first = piece / strips * ids_per_piece;
    const std::size_t last = std::min(vocabulary, first + ids_per_piece);
    for (std::size_t id = first; id < last; ++id) {
      const bool is_padding = padding_id && static_cast<std::size_t>(*padding_id) == id;
      const auto rows = is_padding ? std::span<const std::size_t>() : positions[id];
      sum_rows(rows, d, n, scale, dy + column, dweight + (id * d + column));
    }
  });
}

template <class T>
void gather(std::span<const std::size_t> positions, const T* x, T* y) {
  parallel_ranges(positions.size(), elements_per_piece, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) y[p] = x[positions[p]];
  });
}

template <class T>
void gather_backward(std::span<const std::size_t> positions, std::size_t block, const T* dy,
                     std::size_t n, Target<T> dx) {
  if (!dx.add) {
    parallel_ranges(n, elements_per_piece, [&](std::size_t begin, std::size_t end) {
      std::fill(dx.data + begin, dx.data + end, T(0));
    });
  }
  if (positions.empty()) return;
  parallel_rows(positions.size() / block, block, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin * block; p < end * block; ++p) dx.data[positions[p]] += dy[p];
  });
}

namespace {

/// out[i] = scale * in[i * stride] for i < n and a stride of 0 or 1.
template <class T>
void expand_row(std::size_t n, const Vec<T>& scale, const T* in, std::size_t stride,
                Target<T> out) {
  if (stride == 0) {
    map(n, out, [value = scale * Vec<T>(in[0])] { return value; });
  } else {
    map(
        n, out, [&](const Vec<T>& v) { return scale * v; }, in);
  }
}

}  // namespace

template <class T>
void expand(std::span<const std::size_t> extents, std::span<const std::size_t> in_extents,
            double factor, const T* in, Target<T> out) {
  const BroadcastPlan plan(extents, in_extents, in_extents);
  const Vec<T> scale(static_cast<T>(factor));
  const std::size_t n = plan.row_length();
  const std::size_t stride = plan.a_strides[plan.axes - 1];
  if (plan.rows() == 1) {
    parallel_ranges(n, elements_per_piece, [&](std::size_t begin, std::size_t end) {
      expand_row(end - begin, scale, in + begin * stride, stride, out + begin);
    });
    return;
  }
  parallel_rows(plan.rows(), n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      expand_row(n, scale, in + plan.row_offsets(row)[0], stride, out + row * n);
    }
  });
}

#define TAPESTRY_INSTANTIATE(T)                                                                    \
  template void copy_rows(std::size_t, std::size_t, const T*, std::size_t, Target<T>,              \
                          std::size_t);                                                            \
  template void pad_rows(std::size_t, std::size_t, const T*, std::size_t, Target<T>, std::size_t); \
  template void embedding(std::span<const std::int32_t>, std::size_t, double, const T*, T*);       \
  template void embedding_backward(std::span<const std::int32_t>, std::size_t, std::size_t,        \
                                   std::optional<std::int32_t>, double, const T*, Target<T>);      \
  template void gather(std::span<const std::size_t>, const T*, T*);                                \
  template void gather_backward(std::span<const std::size_t>, std::size_t, const T*, std::size_t,  \
                                Target<T>);                                                        \
  template void permute(std::span<const std::size_t>, std::span<const std::size_t>, const T*,      \
                        Target<T>);                                                                \
  template void expand(std::span<const std::size_t>, std::span<const std::size_t>, double,         \
                       const T*, Target<T>);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
