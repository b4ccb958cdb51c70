// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/gemm.h"

#include <fmt/format.h>

#include "tests/bench/micro/benchmark.h"
#include "tests/bench/problems.h"

namespace tapestry::bench {
namespace {

/// (m, k) times (k, n), each operand stored as it is or transposed.
struct Product {
  std::size_t m, n, k;
  bool a_transposed = false, b_transposed = false;
};

void add_product(const std::string& name, const Product& p) {
  const double flops = 2.0 * static_cast<double>(p.m * p.n * p.k);
  add_benchmark(fmt::format("gemm/{}/{}x{}x{}", name, p.m, p.n, p.k), {.flops = flops}, [p] {
    return [p, a = values(p.m * p.k), b = values(p.k * p.n),
            out = std::vector<float>(p.m * p.n)]() mutable {
      kernels::gemm<float>(
          p.m, p.n, p.k, 1.0F, {a.data(), p.a_transposed ? p.m : p.k, p.a_transposed},
          {b.data(), p.b_transposed ? p.k : p.n, p.b_transposed}, {out.data()}, p.n);
    };
  });
}

/// The three products of a linear map: its value and the gradients of input and weight.
void add_linear(const std::string& name, std::size_t rows, std::size_t in, std::size_t out) {
  add_product(name + "/y", {.m = rows, .n = out, .k = in, .b_transposed = true});
  add_product(name + "/dx", {.m = rows, .n = in, .k = out});
  add_product(name + "/dw", {.m = out, .n = in, .k = rows, .a_transposed = true});
}

}  // namespace

void add_gemm_benchmarks() {
  for (const Problem& p : problems()) {
    add_linear(p.name + "/projection", p.tokens(), p.d_model, p.d_model);
    add_linear(p.name + "/feed_forward", p.tokens(), p.d_model, p.d_ff);
    add_product(p.name + "/output/y", {p.tokens(), p.vocabulary, p.d_model, false, true});
  }
}

}  // namespace tapestry::bench
