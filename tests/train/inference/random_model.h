// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "autograd/kernels/matmul.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/shape_ops.h"
#include "data/batch.h"
#include "data/text/vocabulary.h"
#include "tests/train/hand_made_model.h"
#include "train/inference/batch_tensors.h"
#include "train/inference/beam_search.h"

/// An untrained model for tests of decoding, and a reference for its scores.
namespace tapestry::test {

inline constexpr std::size_t random_model_positions = 16;

/// An untrained model whose logits differ enough that outputs of several lengths are likely.
inline Model random_model(std::uint64_t seed, std::size_t vocabulary = hand_made_vocabulary) {
  const TransformerOptions options{.d_model = 16,
                                   .num_heads = 2,
                                   .num_encoder_layers = 1,
                                   .num_decoder_layers = 2,
                                   .d_ff = 32,
                                   .positions = PositionKind::learned,
                                   .max_length = random_model_positions};
  Model model = make_model("seq2seq", options, {vocabulary, vocabulary}, DType::float64, seed);
  const auto output = model.parameters.find("output.weight")->tensor;
  for (double& value : Tensor(output).mutable_values<double>()) value *= 3;
  return model;
}

/// Sources of several lengths.
inline const std::vector<Sentence> some_sources{{4, 5, 6, 7, 8},   {9}, {7, 8, 4}, {}, {6, 6},
                                                {5, 9, 9, 4, 4, 7}};

/// Whether two values of a sentence from batches of different sizes are bit-identical, or nearly
/// equal with OpenBLAS, whose rounding of a row depends on the number of rows.
inline bool same_in_any_batch(double a, double b) {
  const double rounding = matmul_in_use() == Matmul::openblas ? 1e-12 : 0.0;
  return std::abs(a - b) <= rounding * std::abs(a);
}

inline void check_same(const std::vector<Hypothesis>& a, const std::vector<Hypothesis>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].tokens == b[i].tokens);
    CHECK(same_in_any_batch(a[i].log_probability, b[i].log_probability));
    CHECK(same_in_any_batch(a[i].score, b[i].score));
  }
}

/// log p(tokens, <eos> | source), or without <eos>, from one forward pass of the whole sentence.
inline double log_probability(const Model& model, const Sentence& source, const Sentence& tokens,
                              bool with_eos = true) {
  const Batch batch =
      make_batch({{.source = source, .target = tokens}}, std::vector<std::size_t>{0});
  const Tensor logits = (*model.network)(network_input(batch, DType::float64), Mode::inference());
  const Tensor log_p = log_softmax(logits);
  double sum = 0;
  for (std::size_t t = 0; t < tokens.size() + (with_eos ? 1 : 0); ++t) {
    const std::int32_t label = t < tokens.size() ? tokens[t] : eos_id;
    sum += log_p[0][static_cast<std::ptrdiff_t>(t)][label].item();
  }
  return sum;
}

/// All outputs of up to `max_length` of the given tokens, the most likely first.
inline std::vector<Hypothesis> all_outputs(const Model& model, const Sentence& source,
                                           const Sentence& tokens, std::size_t max_length) {
  std::vector<Hypothesis> all;
  const std::function<void(const Sentence&)> visit = [&](const Sentence& output) {
    const bool cut = output.size() == max_length;
    all.push_back({output, log_probability(model, source, output, !cut), 0});
    if (cut) return;
    for (const std::int32_t id : tokens) {
      Sentence longer = output;
      longer.push_back(id);
      visit(longer);
    }
  };
  visit({});
  std::ranges::stable_sort(all, std::ranges::greater(), &Hypothesis::log_probability);
  return all;
}

/// Wraps a network and hides its incremental decoder.
class WithoutDecoder : public Network {
 public:
  explicit WithoutDecoder(const Network& network) : network_(network) {}
  TokenVectors embed(const NetworkInput& input, const Mode& mode) const override {
    return network_.embed(input, mode);
  }
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode) const override {
    return network_.features(vectors, input, mode);
  }
  Tensor logits(const Tensor& features) const override { return network_.logits(features); }
  bool causal() const override { return true; }

 protected:
  const Network& network_;
};

}  // namespace tapestry::test
