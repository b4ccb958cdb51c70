// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "autograd/kernels/memory.h"

namespace tapestry {

/// Specifies which keys a query may attend to. Masks can be combined with `&`: a key is allowed if
/// all masks allow it.
///
/// The weight of a masked key is exactly 0, and its value, even NaN, has no influence. The output
/// of a query without allowed keys is 0 with zero gradient. If there are fewer queries than keys,
/// the queries have the last positions: query i is at position i + n_k - n_q.
class AttentionMask {
 public:
  /// Every query may attend to every key.
  AttentionMask() = default;

  /// Keys from position lengths[b] on are padding in sentence b. Throws ValueError for a
  /// negative length; attention throws ValueError for a length greater than the number of keys.
  static AttentionMask padding(std::span<const std::int32_t> lengths);
  /// \overload
  static AttentionMask padding(std::initializer_list<std::int32_t> lengths) {
    return padding(std::span(lengths.begin(), lengths.size()));
  }
  /// A query may attend to keys up to its own position.
  static AttentionMask causal();
  /// A query may attend to keys at most `radius` positions away (restricted self-attention).
  static AttentionMask window(std::size_t radius);
  /// keep[(b * n_q + i) * n_k + j] != 0: in sentence b, query i may attend to key j. Throws
  /// ShapeError unless there are batch * n_q * n_k entries.
  static AttentionMask keep(std::size_t batch, std::size_t n_q, std::size_t n_k,
                            std::vector<std::uint8_t> keep);

  /// A key is allowed if both masks allow it. Throws ShapeError if both have lengths or keep masks
  /// of different sizes.
  AttentionMask operator&(const AttentionMask& other) const;

  /// The lengths given to padding(), or their minimum if several masks were combined; empty without
  /// padding.
  std::span<const std::int32_t> lengths() const;

  /// Throws ShapeError, naming `operation`, if this mask does not match the sizes of the batch, and
  /// ValueError if a length is greater than n_k.
  void require_fitting(const char* operation, std::size_t batch, std::size_t n_q,
                       std::size_t n_k) const;

  /// The keys from `first` up to but not including `last`; may be empty.
  struct Range {
    std::size_t first;  ///< the first key
    std::size_t last;   ///< one past the last key, >= first
  };
  /// The keys that query `i` of sentence `b` may attend to, not considering a keep mask.
  Range keys(std::size_t b, std::size_t i, std::size_t n_q, std::size_t n_k) const;
  /// The n_k entries of the keep mask for query i of sentence b, or null if there is no keep mask.
  const std::uint8_t* keep_row(std::size_t b, std::size_t i) const;

 private:
  using Lengths = std::vector<std::int32_t, kernels::PoolAllocator<std::int32_t>>;
  struct Keep {
    std::size_t batch, n_q, n_k;
    std::vector<std::uint8_t> values;
  };
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  static std::shared_ptr<const Lengths> shared(Lengths lengths);
  void require_batch(const char* operation, std::size_t batch) const;
  void require_keep(const char* operation, std::size_t batch, std::size_t n_q,
                    std::size_t n_k) const;

  std::shared_ptr<const Lengths> lengths_;
  bool causal_ = false;
  std::size_t radius_ = unlimited;
  std::shared_ptr<const Keep> keep_;
};

}  // namespace tapestry
