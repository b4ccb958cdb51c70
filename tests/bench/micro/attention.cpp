// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/bench/micro/benchmark.h"

namespace tapestry::bench {
namespace {

/// The keys that each token of `batch` sentences attends to: at most `radius` tokens away.
std::vector<kernels::KeyRange> keys_within(std::size_t radius, std::size_t batch, std::size_t n) {
  std::vector<kernels::KeyRange> keys;
  for (std::size_t i = 0; i < batch * n; ++i) {
    const std::size_t token = i % n;
    keys.push_back({token - std::min(token, radius), std::min(n, token + radius + 1)});
  }
  return keys;
}

/// Self-attention of sentences of n tokens, with memory for all operands, results and gradients.
struct SelfAttention {
  std::size_t batch, n, heads, d;
  double dropout;
  std::size_t radius;
  std::size_t size = batch * n * heads * d;
  std::vector<kernels::KeyRange> keys = keys_within(radius, batch, n);
  std::vector<float> q = values(size), k = values(size), v = values(size), g = values(size);
  std::vector<float> out = std::vector<float>(size), dq = out, dk = out, dv = out;
  std::vector<float> saved = std::vector<float>(kernels::saved_weights(problem()));

  kernels::AttentionProblem problem() const {
    return {.batch = batch,
            .n_q = n,
            .n_k = n,
            .heads = heads,
            .d_k = d,
            .d_v = d,
            .scale = 0.125,
            .keys = keys.data(),
            .dropout = dropout,
            .dropout_key = 1};
  }
  kernels::AttentionOperands<float> operands() const { return {q.data(), k.data(), v.data()}; }
  float* room() { return saved.empty() ? nullptr : saved.data(); }
  void forward() { kernels::attention(problem(), operands(), out.data(), room()); }
  void backward() {
    kernels::attention_backward<float>(problem(), operands(), g.data(), room(),
                                       {{dq.data()}, {dk.data()}, {dv.data()}});
  }
};

void add_attention(std::size_t batch, std::size_t n, std::size_t heads, std::size_t d,
                   double dropout, std::size_t radius) {
  const std::size_t width = std::min(n, 2 * radius + 1);
  const std::string of =
      fmt::format("{}x{} heads of ({}, {}, {}), dropout {}", batch, heads, n, width, d, dropout);
  const double product = 2.0 * static_cast<double>(batch * heads * n * width * d);
  const auto make = [=] {
    return SelfAttention{
        .batch = batch, .n = n, .heads = heads, .d = d, .dropout = dropout, .radius = radius};
  };
  add_benchmark("attention/forward/" + of, {.flops = 2.0 * product},
                [make] { return [a = make()]() mutable { a.forward(); }; });
  add_benchmark("attention/backward/" + of, {.flops = 4.0 * product}, [make] {
    SelfAttention a = make();
    a.forward();  // saves values for backward
    return [a = std::move(a)]() mutable { a.backward(); };
  });
}

}  // namespace

void add_attention_benchmarks() {
  for (const double dropout : {0.0, 0.1}) {
    add_attention(128, 20, 4, 32, dropout, 20);
    add_attention(12, 64, 4, 32, dropout, 64);
    add_attention(1, 1024, 4, 64, dropout, 1024);
  }
  for (const std::size_t n : {1024, 4096}) {  // with a window, time is linear in the length
    for (const std::size_t radius : {std::size_t{32}, n}) add_attention(1, n, 4, 32, 0.0, radius);
  }
}

}  // namespace tapestry::bench
