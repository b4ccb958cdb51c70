// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include "autograd/kernels/norms.h"
#include "autograd/kernels/softmax.h"
#include "tests/bench/micro/benchmark.h"

namespace tapestry::bench {
namespace {

/// Inputs, outputs and gradients of a layer norm of (rows, n).
struct LayerNorm {
  std::size_t rows, n;
  std::vector<float> x = values(rows * n), g = x, y = x, dx = x;
  std::vector<float> weight = values(n), bias = weight, dweight = weight, dbias = weight;
  std::vector<float> means = std::vector<float>(rows), rstds = means;

  void forward() {
    kernels::layer_norm(rows, n, x.data(), weight.data(), bias.data(), 1e-5F, y.data(),
                        means.data(), rstds.data());
  }
  void backward() {
    kernels::layer_norm_backward<float>(rows, n, x.data(), weight.data(), means.data(),
                                        rstds.data(), g.data(), {dx.data()}, {dweight.data()},
                                        {dbias.data()});
  }
};

/// An rms norm of (rows, n), with memory for all operands, results and gradients.
struct RmsNorm {
  std::size_t rows, n;
  std::vector<float> x = values(rows * n), g = x, y = x, dx = x;
  std::vector<float> weight = values(n), dweight = weight;
  std::vector<float> rrms = std::vector<float>(rows);

  void forward() {
    kernels::rms_norm(rows, n, x.data(), weight.data(), 1e-5F, y.data(), rrms.data());
  }
  void backward() {
    kernels::rms_norm_backward<float>(rows, n, x.data(), weight.data(), rrms.data(), g.data(),
                                      {dx.data()}, {dweight.data()});
  }
};

/// A batch norm in training, with memory for all operands, results and gradients.
struct BatchNorm {
  std::size_t rows, n;
  std::vector<float> x = values(rows * n), g = x, y = x, dx = x;
  std::vector<float> weight = values(n), bias = weight, dweight = weight, dbias = weight;
  std::vector<float> means = weight, variances = weight;

  void forward() {
    kernels::column_moments(rows, n, x.data(), means.data(), variances.data());
    kernels::batch_norm(rows, n, x.data(), means.data(), variances.data(), weight.data(),
                        bias.data(), 1e-5F, y.data());
  }
  void backward() {
    kernels::batch_norm_backward<float>(kernels::Moments::from_x, rows, n, x.data(), means.data(),
                                        variances.data(), weight.data(), 1e-5F, g.data(),
                                        {dx.data()}, {dweight.data()}, {dbias.data()});
  }
};

template <class Norm>
void add_norm(const std::string& name, std::size_t rows, std::size_t n) {
  const std::string shape = fmt::format("{}x{}", rows, n);
  add_benchmark(name + "/forward/" + shape, passing(2, rows * n), [=] {
    return [norm = Norm{rows, n}]() mutable { norm.forward(); };
  });
  add_benchmark(name + "/backward/" + shape, passing(3, rows * n), [=] {
    Norm norm{rows, n};
    norm.forward();  // saves values for backward
    return [norm = std::move(norm)]() mutable { norm.backward(); };
  });
}

void add_softmax(std::size_t rows, std::size_t n) {
  const std::string shape = fmt::format("{}x{}", rows, n);
  add_benchmark("softmax_row/forward/" + shape, passing(2, rows * n), [=] {
    return [=, x = values(rows * n), y = values(rows * n)]() mutable {
      for (std::size_t i = 0; i < rows * n; i += n) kernels::softmax_row(n, &x[i], &y[i]);
    };
  });
  add_benchmark("softmax_row/backward/" + shape, passing(3, rows * n), [=] {
    return [=, y = values(rows * n), dy = values(rows * n), dx = values(rows * n)]() mutable {
      for (std::size_t i = 0; i < rows * n; i += n) {
        kernels::softmax_row_backward<float>(n, &y[i], &dy[i], {&dx[i]});
      }
    };
  });
}

}  // namespace

void add_row_benchmarks() {
  add_norm<LayerNorm>("layer_norm", 1024, 64);
  add_norm<LayerNorm>("layer_norm", 512, 128);
  add_norm<LayerNorm>("layer_norm", 128, 512);
  add_norm<RmsNorm>("rms_norm", 512, 128);
  add_norm<BatchNorm>("batch_norm", 512, 128);
  add_softmax(1024, 64);
  add_softmax(64, 1024);
}

}  // namespace tapestry::bench
