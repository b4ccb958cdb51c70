#pragma once

#include "autograd/kernels/attention_tile.h"

/// Attention with linear biases (ALiBi) [1]: scores fall with the distance of key and query, by a
/// slope that is fixed for each head.
///
/// [1] Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input
/// Length Extrapolation", section 3 and the slopes of its reference implementation for any number
/// of heads.
namespace tapestry::kernels {

/// For a power of two, 2^(-8 (head + 1) / heads). Else the heads up to the power of two below have
/// its slopes, the others every second slope of twice that power, from the first on.
double alibi_slope(std::size_t head, std::size_t heads);

/// s_ij -= slope |i - j| for the scores of one tile, in rows stride() apart, where query i stands
/// at position i + n_k - n_q.
template <class T>
void subtract_distances(const AttentionProblem& p, const Tile& t, T* s);

}  // namespace tapestry::kernels
