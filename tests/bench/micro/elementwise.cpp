// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/elementwise.h"
#include "autograd/kernels/activations.h"
#include "autograd/kernels/dropout.h"
#include "autograd/kernels/gated.h"
#include "autograd/kernels/optimizer_update.h"
#include "autograd/kernels/simd.h"
#include "tests/bench/micro/benchmark.h"

namespace tapestry::bench {
namespace {

using Vec = kernels::Vec<float>;

/// Elements of one piece of parallel work; the arrays fit in the L2 cache.
constexpr std::size_t n = 16384;
constexpr double rate = 0.1;

void add_dropout() {
  add_benchmark("dropout/16384", passing(2, n), [] {
    return [x = values(n), y = values(n)]() mutable {
      kernels::dropout<float>(1, 0, n, rate, x.data(), {y.data()});
    };
  });
  add_benchmark("dropout_add/16384", passing(3, n), [] {
    return [residual = values(n), x = values(n), y = values(n)]() mutable {
      kernels::dropout_add(1, 0, n, rate, residual.data(), x.data(), y.data());
    };
  });
  add_benchmark("relu_dropout/16384", passing(2, n), [] {
    return [x = values(n), y = values(n)]() mutable {
      kernels::relu_dropout(1, 0, n, rate, x.data(), y.data());
    };
  });
}

template <class F>
void add_map(const std::string& name, F f) {
  add_benchmark(name + "/16384", passing(2, n), [f] {
    return [f, x = values(n), y = values(n)]() mutable {
      kernels::map(n, kernels::Target<float>{y.data()}, f, x.data());
    };
  });
}

template <class F>
void add_gradient(const std::string& name, F f) {
  add_benchmark(name + "/16384", passing(3, n), [f] {
    return [f, g = values(n), x = values(n), dx = values(n)]() mutable {
      kernels::map(n, kernels::Target<float>{dx.data()}, f, g.data(), x.data());
    };
  });
}

void add_activations() {
  add_map("relu/forward", [](const Vec& x) { return kernels::relu(x); });
  add_gradient("relu/backward", [](const Vec& g, const Vec& y) {
    return xsimd::select(y <= Vec(0.0F), Vec(0.0F), g);
  });
  add_map("gelu/forward", [](const Vec& x) { return kernels::gelu(x); });
  add_gradient("gelu/backward",
               [](const Vec& g, const Vec& x) { return g * kernels::gelu_derivative(x); });
  add_map("gelu_tanh/forward", [](const Vec& x) { return kernels::gelu_tanh(x); });
  add_gradient("gelu_tanh/backward",
               [](const Vec& g, const Vec& x) { return g * kernels::gelu_tanh_derivative(x); });
  add_map("silu/forward", [](const Vec& x) { return kernels::silu(x); });
  add_gradient("silu/backward",
               [](const Vec& g, const Vec& x) { return g * kernels::silu_derivative(x); });
}

/// n results, computed from rows of 128 values and 128 gates.
void add_gated(const std::string& name, kernels::Gate gate) {
  constexpr std::size_t columns = 128;
  add_benchmark(name + "/forward/16384", passing(3, n), [gate] {
    return [gate, x = values(2 * n), y = values(n)]() mutable {
      kernels::gated(gate, n / columns, columns, x.data(), y.data());
    };
  });
  add_benchmark(name + "/backward/16384", passing(5, n), [gate] {
    return [gate, x = values(2 * n), g = values(n), dx = values(2 * n)]() mutable {
      kernels::gated_backward<float>(gate, n / columns, columns, x.data(), g.data(), {dx.data()});
    };
  });
}

void add_adam() {
  constexpr kernels::AdamCoefficients numbers = {.gradient_scale = 1.0,
                                                 .coupled_decay = 0.0,
                                                 .beta1 = 0.9,
                                                 .beta2 = 0.98,
                                                 .step_size = 1e-3,
                                                 .root_scale = 1.0,
                                                 .epsilon = 1e-9,
                                                 .decoupled_decay = 0.0};
  add_benchmark("adam_update/16384", passing(7, n), [numbers] {
    return [numbers, g = values(n), p = values(n), m = std::vector<float>(n),
            v = std::vector<float>(n)]() mutable {
      kernels::adam_update(n, numbers, g.data(), p.data(), m.data(), v.data());
    };
  });
}

}  // namespace

void add_elementwise_benchmarks() {
  add_dropout();
  add_activations();
  add_gated("swiglu", kernels::Gate::silu);
  add_gated("geglu", kernels::Gate::gelu);
  add_adam();
}

}  // namespace tapestry::bench
