// SPDX-License-Identifier: BSD-3-Clause
#include "tests/bench/problems.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "autograd/error.h"

namespace tapestry::bench {
namespace {

const std::array<Problem, 6> all = {{
    // name, vocabulary, d_model, heads, d_ff, encoder and decoder layers, batch, length
    {"toy", 16, 64, 4, 256, 2, 2, 64, 16},
    {"tiny", 8000, 128, 4, 256, 4, 4, 128, 20},
    {"small", 8000, 256, 4, 1024, 3, 3, 64, 24},
    {"base", 8000, 512, 8, 2048, 6, 6, 32, 32},
    {"char", 65, 128, 4, 512, 0, 4, 12, 64},
    {"long", 8000, 256, 4, 1024, 0, 6, 4, 1024},
}};

/// Multiplications of one sentence in the forward pass.
struct Multiplications {
  explicit Multiplications(const Problem& p)
      : n(static_cast<double>(p.length)),
        d(static_cast<double>(p.d_model)),
        d_ff(static_cast<double>(p.d_ff)),
        vocabulary(static_cast<double>(p.vocabulary)) {}

  double full_attention() const { return projections() + 2.0 * d * n * n; }
  double causal_attention() const { return projections() + 2.0 * d * n * (n + 1.0) / 2.0; }
  double feed_forward() const { return n * 2.0 * d * d_ff; }
  double output() const { return n * d * vocabulary; }

 private:
  /// Projections of queries, keys, values and output.
  double projections() const { return 4.0 * n * d * d; }

  double n, d, d_ff, vocabulary;
};

}  // namespace

std::span<const Problem> problems() { return all; }

const Problem& problem_named(const std::string& name) {
  const auto* found = std::ranges::find(all, name, &Problem::name);
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const Problem& problem : all) names.push_back(problem.name);
  throw ValueError(
      fmt::format("there is no problem '{}', expected one of: {}", name, fmt::join(names, ", ")));
}

double flops_per_step(const Problem& p) {
  const Multiplications of(p);
  const double encoder_layer = of.full_attention() + of.feed_forward();
  const double decoder_layer =
      of.causal_attention() + of.feed_forward() + (p.has_encoder() ? of.full_attention() : 0.0);
  const double sentence = static_cast<double>(p.num_encoder_layers) * encoder_layer +
                          static_cast<double>(p.num_decoder_layers) * decoder_layer + of.output();
  return 3.0 * 2.0 * sentence * static_cast<double>(p.batch);
}

}  // namespace tapestry::bench
