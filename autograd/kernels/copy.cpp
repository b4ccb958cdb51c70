#include "autograd/kernels/copy.h"

#include <algorithm>
#include <array>

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

#define TAPESTRY_INSTANTIATE(T)                                                       \
  template void copy_rows(std::size_t, std::size_t, const T*, std::size_t, Target<T>, \
                          std::size_t);                                               \
  template void pad_rows(std::size_t, std::size_t, const T*, std::size_t, Target<T>, std::size_t);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

namespace {

/// One axis of the result, with its strides on both sides.
struct Axis {
  std::size_t extent, in_stride, out_stride;
};

/// The axes of the result from the first to the last, without axes of extent 1; axes that are
/// adjacent in the same order on both sides are merged.
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

/// Elements along a side of a tile: one cache line.
template <class T>
inline constexpr std::size_t tile = 64 / sizeof(T);

/// out[r, c] = in[c, r] for a tile of `rows` x `columns`, each side with its own row stride.
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

template void permute(std::span<const std::size_t>, std::span<const std::size_t>, const float*,
                      Target<float>);
template void permute(std::span<const std::size_t>, std::span<const std::size_t>, const double*,
                      Target<double>);

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
