// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include "autograd/kernels/cross_entropy.h"
#include "tests/bench/micro/benchmark.h"

namespace tapestry::bench {
namespace {

/// Rows of logits, with targets from the whole vocabulary.
struct Rows {
  std::size_t rows, vocabulary;
  std::vector<std::int32_t> targets = std::vector<std::int32_t>(rows);

  Rows(std::size_t rows_, std::size_t vocabulary_) : rows(rows_), vocabulary(vocabulary_) {
    for (std::size_t i = 0; i < rows; ++i) {
      targets[i] = static_cast<std::int32_t>(i * 31 % vocabulary);
    }
  }
  kernels::CrossEntropyProblem problem() const {
    return {
        .rows = rows, .vocabulary = vocabulary, .targets = targets.data(), .label_smoothing = 0.1};
  }
};

void add_cross_entropy(std::size_t rows, std::size_t vocabulary) {
  const std::string shape = fmt::format("{}x{}", rows, vocabulary);
  const std::size_t n = rows * vocabulary;
  add_benchmark("cross_entropy/forward/" + shape, passing(1, n), [=] {
    return [r = Rows(rows, vocabulary), logits = values(n),
            log_sums = std::vector<kernels::LogSumExp<float>>(rows)]() mutable {
      benchmark::DoNotOptimize(kernels::cross_entropy(r.problem(), logits.data(), log_sums.data()));
    };
  });
  add_benchmark("cross_entropy/backward/" + shape, passing(2, n), [=] {
    const Rows r(rows, vocabulary);
    const std::vector<float> logits = values(n);
    std::vector<kernels::LogSumExp<float>> log_sums(rows);
    kernels::cross_entropy(r.problem(), logits.data(), log_sums.data());
    return [r, logits, log_sums, gradient = logits]() mutable {
      kernels::cross_entropy_backward<float>(r.problem(), logits.data(), log_sums.data(), 1.0F,
                                             {gradient.data()});
    };
  });
}

void add_linear_cross_entropy(std::size_t rows, std::size_t d, std::size_t vocabulary) {
  const double product = 2.0 * static_cast<double>(rows * d * vocabulary);
  add_benchmark(fmt::format("linear_cross_entropy/both/{}x{}x{}", rows, d, vocabulary),
                {.flops = 3.0 * product}, [=] {
                  return [=, r = Rows(rows, vocabulary), x = values(rows * d),
                          weight = values(vocabulary * d), bias = values(vocabulary),
                          dx = values(rows * d), dweight = values(vocabulary * d),
                          dbias = values(vocabulary)]() mutable {
                    benchmark::DoNotOptimize(kernels::linear_cross_entropy<float>(
                        {r.problem(), d, x.data(), weight.data(), bias.data()}, 1.0,
                        {dx.data(), dweight.data(), dbias.data()}));
                  };
                });
}

}  // namespace

void add_loss_benchmarks() {
  add_cross_entropy(1024, 16);
  add_cross_entropy(64, 8000);
  add_linear_cross_entropy(1024, 128, 8000);
  add_linear_cross_entropy(1024, 512, 8000);
}

}  // namespace tapestry::bench
