// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tapestry::bench {

/// A model and a batch for it. Both sides have one vocabulary each of the same size, and sentences
/// of the same length without padding.
struct Problem {
  std::string name;
  std::size_t vocabulary, d_model, num_heads, d_ff;
  std::size_t num_encoder_layers;  ///< 0: a language model, without an encoder and a source
  std::size_t num_decoder_layers;
  std::size_t batch;   ///< sentences
  std::size_t length;  ///< of each, source and target alike

  bool has_encoder() const { return num_encoder_layers > 0; }
  /// Of the target, which the loss is about.
  std::size_t tokens() const { return batch * length; }
};

/// All that have a name, from small to large.
std::span<const Problem> problems();

/// The problem of this name; throws ValueError, naming all, for another name.
const Problem& problem_named(const std::string& name);

/// Floating point operations of a training step: two for each multiplication of its matrix
/// products, three times over, since each product of the forward pass has two in the backward pass,
/// for the gradients of its two operands.
///
/// Counted are linear maps and, in attention, scores and weighted values of those pairs of query
/// and key that the mask lets through: n (n + 1) / 2 under a causal mask, not n^2. Not counted is
/// what is no matrix product, and what is computed a second time to save memory.
double flops_per_step(const Problem& problem);

}  // namespace tapestry::bench
