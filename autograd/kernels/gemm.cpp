// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/gemm.h"

#include <algorithm>
#include <numeric>

#include "autograd/kernels/gemm_pack.h"
#include "autograd/kernels/gemm_tile.h"
#include "autograd/kernels/matmul.h"
#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/scratch.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

/// Number of rows of a that are packed at a time, so that they stay in the L2 cache.
constexpr std::size_t row_block = 16 * tile_height;

template <class T>
struct Product {
  std::size_t m, n, k;
  T scale;
  Operand<T> a;
  Target<T> out;
  std::size_t out_stride;
  const T* bias;
};

std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

/// The columns of b (k, n) in the order in which tiles read them: panels of tile_width columns,
/// each stored row by row. The first panels may be read from b itself instead of being packed.
template <class T>
class ColumnPanels {
 public:
  static ColumnPanels all_packed(const Operand<T>& b, std::size_t k, std::size_t n) {
    return {b, k, n, 0};
  }
  /// Packs b only if it is transposed or if enough rows of a use it. An incomplete last panel is
  /// always packed.
  static ColumnPanels for_rows(std::size_t m, const Operand<T>& b, std::size_t k, std::size_t n) {
    const bool pays = b.transposed || m > 3 * tile_height;
    return {b, k, n, pays ? 0 : n / tile_width<T>};
  }

  std::size_t count() const { return ceil_div(n_, tile_width<T>); }
  std::size_t packed_count() const { return count() - first_packed_; }
  std::size_t packed_size() const { return packed_count() * tile_width<T> * k_; }
  /// Memory of the packed panels, packed_size() values; pack() fills it.
  void use(T* packed) { packed_ = packed; }

  void pack() const { b_.transposed ? pack_panels(0, packed_count()) : pack_rows_of_b(0, k_); }
  void pack_in_parallel() const {
    if (b_.transposed) {
      parallel_rows(packed_count(), k_ * tile_width<T>,
                    [&](std::size_t begin, std::size_t end) { pack_panels(begin, end); });
    } else {
      parallel_rows(k_, packed_count() * tile_width<T>,
                    [&](std::size_t begin, std::size_t end) { pack_rows_of_b(begin, end); });
    }
  }

  TileColumns<T> at(std::size_t panel, std::size_t p) const {
    if (panel < first_packed_) {
      return {b_.data + p * b_.stride + panel * tile_width<T>, b_.stride};
    }
    return {packed_ + ((panel - first_packed_) * k_ + p) * tile_width<T>, tile_width<T>};
  }

 private:
  ColumnPanels(const Operand<T>& b, std::size_t k, std::size_t n, std::size_t first_packed)
      : b_(b), k_(k), n_(n), first_packed_(first_packed) {}

  void pack_panels(std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t j = (first_packed_ + i) * tile_width<T>;
      pack_transposed_panel(b_, j, std::min(tile_width<T>, n_ - j), k_,
                            packed_ + i * tile_width<T> * k_);
    }
  }
  void pack_rows_of_b(std::size_t begin, std::size_t end) const {
    pack_columns(b_, first_packed_ * tile_width<T>, n_, k_, begin, end, packed_);
  }

  Operand<T> b_;
  std::size_t k_, n_, first_packed_;
  T* packed_ = nullptr;
};

/// Up to row_block rows of the operand `a`, for one k_block, in the order in which tiles read them.
template <class T>
class RowPanels {
 public:
  /// `panels`: number of panels of columns that these rows are multiplied by.
  RowPanels(const Operand<T>& a, std::size_t begin, std::size_t end, std::size_t p, std::size_t k,
            std::size_t panels)
      : a_(a), begin_(begin), p_(p), k_(k), packed_(nullptr) {
    if (panels <= min_panels(a)) return;
    thread_local Scratch scratch;
    packed_ = scratch.array<T>(row_block * k_block + lanes<T>);
    pack_rows(a_, begin, end, p, k, packed_);
  }

  TileRows<T> at(std::size_t i, std::size_t height) const {
    if (packed_ != nullptr) return {packed_ + (i - begin_) * k_, 1, height};
    if (a_.transposed) return {a_.data + p_ * a_.stride + i, 1, a_.stride};
    return {a_.data + i * a_.stride + p_, a_.stride, 1};
  }

 private:
  /// Number of panels beyond which packing a is faster. The number is higher if a is not
  /// transposed, because packing then transposes a.
  static std::size_t min_panels(const Operand<T>& a) { return a.transposed ? 2 : 8; }

  Operand<T> a_;
  std::size_t begin_, p_, k_;
  T* packed_;
};

/// A part of the result: some rows, and some panels of columns.
struct Part {
  std::size_t row_begin, row_end, panel_begin, panel_end;
};

template <class T>
void multiply_block(const Product<T>& x, const ColumnPanels<T>& columns, const Part& part,
                    std::size_t p) {
  const std::size_t k = std::min(k_block, x.k - p);
  const RowPanels<T> rows(x.a, part.row_begin, part.row_end, p, k,
                          part.panel_end - part.panel_begin);
  const bool first = p == 0;
  for (std::size_t panel = part.panel_begin; panel < part.panel_end; ++panel) {
    const std::size_t j = panel * tile_width<T>;
    const TileColumns<T> tile_columns = columns.at(panel, p);
    for (std::size_t i = part.row_begin; i < part.row_end;) {
      const std::size_t height = next_tile_height(part.row_end - i);
      multiply_tile<T>(height, k, rows.at(i, height), tile_columns,
                       {.out = {x.out.data + i * x.out_stride + j, x.out.add || !first},
                        .stride = x.out_stride,
                        .columns = std::min(tile_width<T>, x.n - j),
                        .scale = x.scale,
                        .bias = first && x.bias != nullptr ? x.bias + j : nullptr});
      i += height;
    }
  }
}

template <class T>
void multiply_part(const Product<T>& x, const ColumnPanels<T>& columns, const Part& part) {
  for (std::size_t begin = part.row_begin; begin < part.row_end; begin += row_block) {
    const std::size_t end = std::min(part.row_end, begin + row_block);
    std::size_t p = 0;
    do {  // runs once if k is 0, because the result has to be written
      multiply_block(x, columns, {begin, end, part.panel_begin, part.panel_end}, p);
      p += k_block;
    } while (p < x.k);
  }
}

/// The first row of a part if m rows are divided into `parts` parts of whole tiles.
std::size_t first_row(std::size_t m, std::size_t part, std::size_t parts) {
  return std::min(m, ceil_div(m, tile_height) * part / parts * tile_height);
}

/// Divides the result among threads; the bits of the result do not depend on the division. Threads
/// take neighboring parts, so the number of parts is a multiple of the number of threads if there
/// are enough rows and columns, and parts differ by at most one tile or one panel.
class Grid {
 public:
  Grid(std::size_t m, std::size_t panels) : m_(m), panels_(panels) {
    constexpr std::size_t min_tiles = 4;  // per part, so that packing and claiming it is worthwhile
    const std::size_t tiles = ceil_div(m, tile_height);
    const std::size_t threads = num_threads();
    const std::size_t wanted = 4 * threads;
    row_parts_ =
        std::max(ceil_div(m, row_block), std::clamp<std::size_t>(tiles / min_tiles, 1, wanted));
    if (row_parts_ >= threads) row_parts_ -= row_parts_ % threads;
    // Divides the columns only if there are too few rows, because each part of the columns reads
    // all rows of a again.
    panel_parts_ = std::min(threads / std::gcd(row_parts_, threads), panels);
  }

  std::size_t parts() const { return row_parts_ * panel_parts_; }
  Part part(std::size_t index) const {
    const auto row = [&](std::size_t i) { return first_row(m_, i, row_parts_); };
    const auto panel = [&](std::size_t j) { return panels_ * j / panel_parts_; };
    const std::size_t i = index % row_parts_, j = index / row_parts_;
    return {row(i), row(i + 1), panel(j), panel(j + 1)};
  }

 private:
  std::size_t m_, panels_, row_parts_, panel_parts_;
};

template <class T>
void multiply_in_parallel(const Product<T>& x, const ColumnPanels<T>& columns) {
  const Grid grid(x.m, columns.count());
  parallel_for(grid.parts(), [&](std::size_t i) { multiply_part(x, columns, grid.part(i)); });
}

/// The partial product over one k_block, from p on, of the rows [begin, end).
template <class T>
struct KBlock {
  Product<T> product;
  Operand<T> b;

  KBlock(const Product<T>& x, const Operand<T>& all_of_b, std::size_t p, std::size_t begin,
         std::size_t end)
      : product(x), b(all_of_b) {
    product.m = end - begin;
    product.k = std::min(k_block, x.k - p);
    product.a.data += x.a.transposed ? p * x.a.stride + begin : begin * x.a.stride + p;
    product.out = x.out + begin * x.out_stride;
    b.data += b.transposed ? p : p * b.stride;
  }
};

/// Computes the whole product on the calling thread, one k_block at a time, so that the packed part
/// of b stays in the L2 cache unless n is too large.
template <class T>
void multiply_serial(const Product<T>& x, const Operand<T>& b) {
  std::size_t p = 0;
  do {
    KBlock<T> next(x, b, p, 0, x.m);
    if (p > 0) next.product.out.add = true;
    if (p > 0) next.product.bias = nullptr;
    auto columns = ColumnPanels<T>::for_rows(x.m, next.b, next.product.k, x.n);
    thread_local Scratch scratch;
    columns.use(scratch.array<T>(columns.packed_size()));
    columns.pack();
    multiply_part(next.product, columns, {0, x.m, 0, columns.count()});
    p += k_block;
  } while (p < x.k);
}

/// A small result with a large k, such as the gradient of a weight, has too few parts for all
/// threads. Then each k_block of the product is computed separately, and the partial products are
/// added in order: the same operations in the same order as without the split.
bool is_better_split_along_k(std::size_t m, std::size_t n, std::size_t k) {
  constexpr std::size_t max_result_size = 512 * 512;
  return m * n <= max_result_size && k >= 2 * k_block;
}

template <class T>
void add_blocks(const Product<T>& x, std::size_t blocks, const T* parts) {
  const Vec<T> scale(x.scale);
  parallel_rows(x.m, x.n * blocks, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      Target<T> row = x.out + i * x.out_stride;
      if (x.bias != nullptr) {
        map(
            x.n, row, [](const Vec<T>& b) { return b; }, x.bias);
        row.add = true;
      }
      for (std::size_t block = 0; block < blocks; ++block, row.add = true) {
        const T* part = parts + (block * x.m + i) * x.n;
        if (row.add) {
          map(
              x.n, Target<T>{row.data},
              [&](const Vec<T>& p, const Vec<T>& sum) { return multiply_add<T>(scale, p, sum); },
              part, row.data);
        } else {
          map(
              x.n, row, [&](const Vec<T>& p) { return scale * p; }, part);
        }
      }
    }
  });
}

template <class T>
void multiply_along_k(const Product<T>& x, const Operand<T>& b) {
  const std::size_t blocks = ceil_div(x.k, k_block);
  const Memory memory(blocks * x.m * x.n * sizeof(T));
  T* const sums = reinterpret_cast<T*>(memory.data());
  // Gives each thread the same number of pieces: splits rows if there are too few blocks.
  const std::size_t threads = num_threads();
  const std::size_t row_parts =
      blocks >= 4 * threads
          ? 1
          : std::min(threads / std::gcd(blocks, threads), ceil_div(x.m, tile_height));
  const auto row = [&](std::size_t part) { return first_row(x.m, part, row_parts); };
  parallel_for(blocks * row_parts, [&](std::size_t piece) {
    const std::size_t block = piece / row_parts, part = piece % row_parts;
    Product<T> plain = x;
    plain.scale = T(1);
    plain.out = {sums + block * x.m * x.n};
    plain.out_stride = x.n;
    plain.bias = nullptr;
    const KBlock<T> partial(plain, b, block * k_block, row(part), row(part + 1));
    multiply_serial(partial.product, partial.b);
  });
  add_blocks(x, blocks, sums);
}

/// Products with fewer multiplications run on one thread.
constexpr std::size_t min_parallel_multiplications = std::size_t{1} << 17;

bool uses_openblas() { return matmul_in_use() == Matmul::openblas; }

}  // namespace

template <class T>
void gemm_serial(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,
                 Target<T> out, std::size_t out_stride, const T* bias) {
  count_product(m, n, k);
  if (m == 0 || n == 0) return;
  if (uses_openblas()) {
    return openblas_gemm_serial(m, n, k, scale, a, b, out, out_stride, bias);
  }
  multiply_serial<T>({m, n, k, scale, a, out, out_stride, bias}, b);
}

template <class T>
void gemm(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,
          Target<T> out, std::size_t out_stride, const T* bias) {
  count_product(m, n, k);
  if (m == 0 || n == 0) return;
  if (uses_openblas()) {
    return openblas_gemm(m, n, k, scale, a, b, out, out_stride, bias);
  }
  const Product<T> product{m, n, k, scale, a, out, out_stride, bias};
  if (m * n * k < min_parallel_multiplications) return multiply_serial(product, b);
  if (is_better_split_along_k(m, n, k)) {
    return num_threads() > 1 ? multiply_along_k(product, b) : multiply_serial(product, b);
  }
  auto columns = ColumnPanels<T>::for_rows(m, b, k, n);
  const Memory packed(columns.packed_size() * sizeof(T));
  columns.use(reinterpret_cast<T*>(packed.data()));
  columns.pack_in_parallel();
  multiply_in_parallel(product, columns);
}

template <class T>
Memory pack_operand(std::size_t k, std::size_t n, Operand<T> b) {
  if (uses_openblas()) return {};
  auto columns = ColumnPanels<T>::all_packed(b, k, n);
  Memory memory(columns.packed_size() * sizeof(T));
  columns.use(reinterpret_cast<T*>(memory.data()));
  columns.pack_in_parallel();
  return memory;
}

template <class T>
void gemm_packed(std::size_t m, T scale, Operand<T> a, const PackedOperand<T>& b, Target<T> out,
                 std::size_t out_stride, const T* bias) {
  count_product(m, b.n(), b.k());
  if (m == 0 || b.n() == 0) return;
  if (uses_openblas()) {
    return openblas_gemm(m, b.n(), b.k(), scale, a, b.operand(), out, out_stride, bias);
  }
  auto columns = ColumnPanels<T>::all_packed(b.operand(), b.k(), b.n());
  columns.use(b.data());
  const Product<T> product{m, b.n(), b.k(), scale, a, out, out_stride, bias};
  if (m * b.n() * b.k() < min_parallel_multiplications) {
    return multiply_part(product, columns, {0, m, 0, columns.count()});
  }
  multiply_in_parallel(product, columns);
}

#define TAPESTRY_INSTANTIATE(T)                                                                   \
  template void gemm_serial(std::size_t, std::size_t, std::size_t, T, Operand<T>, Operand<T>,     \
                            Target<T>, std::size_t, const T*);                                    \
  template void gemm(std::size_t, std::size_t, std::size_t, T, Operand<T>, Operand<T>, Target<T>, \
                     std::size_t, const T*);                                                      \
  template Memory pack_operand(std::size_t, std::size_t, Operand<T>);                             \
  template void gemm_packed(std::size_t, T, Operand<T>, const PackedOperand<T>&, Target<T>,       \
                            std::size_t, const T*);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
