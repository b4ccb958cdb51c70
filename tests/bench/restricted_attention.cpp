// Shows that restricted self-attention grows with the length of a sequence, not with its square.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/ops/attention.h"
#include "autograd/tape.h"
#include "tests/bench/measurements.h"

namespace {

using namespace tapestry;

constexpr std::size_t heads = 4, d_head = 32;

struct Cost {
  double milliseconds, megabytes;
};

/// Values between -1 and 1, uneven and always the same.
Tensor leaf(const Shape& shape, std::uint32_t seed) {
  Tensor x = Tensor::empty(shape, DType::float32);
  for (float& value : x.mutable_values<float>()) {
    seed = 1664525 * seed + 1013904223;
    value = static_cast<float>(seed >> 8) * 0x1p-23F - 1.0F;
  }
  return x.require_gradient();
}

/// Self-attention of one sentence of n tokens.
struct SelfAttention {
  std::size_t n;
  AttentionOptions options;
  bool additive;
  Tensor q = leaf({1, n, heads*d_head}, 1), k = leaf(q.shape(), 2), v = leaf(q.shape(), 3);
  Tensor w = leaf({heads, d_head}, 4);

  /// Forward and backward.
  void run() {
    {
      Tape tape;
      const Tensor y = additive ? additive_attention(q, k, v, w, options)
                                : scaled_dot_product_attention(q, k, v, options);
      tape.backward(y, y);
    }
    for (Tensor* x : {&q, &k, &v, &w}) x->clear_gradient();
  }
};

/// Of the processor: neighbors on a shared machine lengthen it little.
double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// The first run takes from the system what the others use again. The memory is the most that was
/// in use of the pool at once, without queries, keys and values.
Cost cost_of(SelfAttention attention, std::size_t runs) {
  const std::size_t before = kernels::restart_memory_peak();
  attention.run();
  std::vector<double> times;
  for (std::size_t i = 0; i < runs; ++i) {
    const double start = seconds();
    attention.run();
    times.push_back(seconds() - start);
  }
  const std::size_t most = kernels::memory_statistics().peak_bytes_in_use - before;
  return {1e3 * bench::low_percentile(times), 1e-6 * static_cast<double>(most)};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times self-attention, forward and backward, within a window and without one.");
  std::size_t radius = 32, longest = 4096, runs = 20;
  bool additive = false;
  app.add_option("--radius", radius, "Of the window")->capture_default_str();
  app.add_option("--longest", longest, "Tokens, from 256 on in powers of two")
      ->capture_default_str();
  app.add_option("--runs", runs, "Of each")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_flag("--additive", additive, "Additive scores instead of scaled dot products");
  CLI11_PARSE(app, argc, argv);

  kernels::set_num_threads(1);
  fmt::print(
      "| n | window ms | us a token | MB | full ms | us a token | MB |\n"
      "|---|---|---|---|---|---|---|\n");
  for (std::size_t n = 256; n <= longest; n *= 2) {
    const auto of = [&](const AttentionMask& mask) {
      return cost_of({.n = n, .options = {.num_heads = heads, .mask = mask}, .additive = additive},
                     runs);
    };
    const Cost window = of(AttentionMask::window(radius)), full = of({});
    const double tokens = static_cast<double>(n);
    fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", n,
               window.milliseconds, 1e3 * window.milliseconds / tokens, window.megabytes,
               full.milliseconds, 1e3 * full.milliseconds / tokens, full.megabytes);
  }
}
