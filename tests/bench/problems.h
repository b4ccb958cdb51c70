// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tapestry::bench {

/// A model and a batch for it. Source and target have vocabularies of the same size, and sentences
/// of the same length without padding.
struct Problem {
  std::string name;
  std::size_t vocabulary, d_model, num_heads, d_ff;
  std::size_t num_encoder_layers;  ///< 0: a language model, which has no encoder and no source
  std::size_t num_decoder_layers;
  std::size_t batch;   ///< number of sentences
  std::size_t length;  ///< tokens of each source and target sentence

  bool has_encoder() const { return num_encoder_layers > 0; }
  /// Number of target tokens.
  std::size_t tokens() const { return batch * length; }
};

/// The named problems, from small to large.
std::span<const Problem> problems();

/// The problem of this name. Throws ValueError, which lists all names, if the name is unknown.
const Problem& problem_named(const std::string& name);

/// Floating point operations of the matrix products of a training step, two for each
/// multiplication. Each product of the forward pass counts three times, because the backward pass
/// has two more products for the gradients of its operands.
///
/// Includes linear maps and, in attention, scores and weighted values of the pairs of query and key
/// that the mask allows: n (n + 1) / 2 under a causal mask, not n^2. Excludes products that are
/// recomputed to save memory.
double flops_per_step(const Problem& problem);

}  // namespace tapestry::bench
