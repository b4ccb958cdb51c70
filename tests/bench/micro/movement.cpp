// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "autograd/kernels/copy.h"
#include "autograd/kernels/reduce.h"
#include "tests/bench/micro/benchmark.h"

namespace tapestry::bench {
namespace {

constexpr std::size_t vocabulary = 8000, d_model = 128, tokens = 512;

std::vector<std::int32_t> ids() {
  std::vector<std::int32_t> result(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    result[i] = static_cast<std::int32_t>(i * 97 % vocabulary);
  }
  return result;
}

void add_embedding() {
  add_benchmark("embedding/forward/512 of 8000x128", passing(2, tokens * d_model), [] {
    return [of = ids(), weight = values(vocabulary * d_model),
            y = values(tokens * d_model)]() mutable {
      kernels::embedding(of, d_model, 1.0, weight.data(), y.data());
    };
  });
  const Work work = passing(1, (tokens + vocabulary) * d_model);
  add_benchmark("embedding/backward/512 of 8000x128", work, [] {
    return [of = ids(), dy = values(tokens * d_model),
            dweight = values(vocabulary * d_model)]() mutable {
      kernels::embedding_backward<float>(of, vocabulary, d_model, std::nullopt, 1.0, dy.data(),
                                         {dweight.data()});
    };
  });
}

void add_permute(const std::string& name, std::array<std::size_t, 3> axes) {
  constexpr std::array<std::size_t, 3> extents = {16, 64, 64};
  constexpr std::size_t n = extents[0] * extents[1] * extents[2];
  add_benchmark("permute/" + name + "/16x64x64", passing(2, n), [=] {
    return [=, in = values(n), out = values(n)]() mutable {
      kernels::permute<float>(extents, axes, in.data(), {out.data()});
    };
  });
}

void add_reduce(const std::string& name, std::size_t outer, std::size_t extent, std::size_t inner) {
  const std::size_t n = outer * extent * inner;
  add_benchmark("sum_middle_axis/" + name, passing(1, n), [=] {
    return [=, in = values(n), out = values(outer * inner)]() mutable {
      kernels::sum_middle_axis<float>(outer, extent, inner, in.data(), {out.data()});
    };
  });
}

}  // namespace

void add_movement_benchmarks() {
  add_embedding();
  add_permute("rows stay whole", {1, 0, 2});
  add_permute("rows become columns", {0, 2, 1});
  add_reduce("rows of 512x128", 1, 512, 128);
  add_reduce("columns of 512x128", 512, 128, 1);
  add_benchmark("sum_of_squares/65536", passing(1, 65536), [] {
    return [in = values(65536)] {
      benchmark::DoNotOptimize(kernels::sum_of_squares(in.size(), in.data()));
    };
  });
}

}  // namespace tapestry::bench
