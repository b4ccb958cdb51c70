#pragma once

#include <cstddef>
#include <span>

#include "autograd/tensor.h"

namespace tapestry {

/// The keys and values of the tokens that one attention layer has read, so that decoding computes
/// them once per token and not again for each later one. For inference: nothing is recorded.
///
/// Rows are sequences, all of the same length. With rotary positions, the keys are stored after
/// their rotation.
class KeyValueCache {
 public:
  /// Without tokens.
  KeyValueCache() = default;
  /// The tokens of keys and values, (rows, length, width) each, without a copy: the tensors are
  /// never written to.
  ///
  /// throws  ShapeError if their shapes or element types differ.
  KeyValueCache(const Tensor& keys, const Tensor& values);

  /// Number of sequences; 0 before the first append().
  std::size_t rows() const;
  /// Number of tokens of each sequence.
  std::size_t length() const { return length_; }
  /// (rows, at least length, width); what follows the first `length` tokens has no meaning. An
  /// empty handle before the first append().
  const Tensor& keys() const { return keys_; }
  /// The same for values.
  const Tensor& values() const { return values_; }

  /// Appends tokens to every sequence: (rows, any length, width) each.
  ///
  /// throws  ShapeError if rows or widths differ from those of the cache.
  void append(const Tensor& keys, const Tensor& values);

  /// Replaces the sequences: the new sequence i is a copy of the old one rows[i]. Sequences that
  /// keep their place are not copied if their number does not change.
  ///
  /// throws  ValueError if a row does not exist.
  void select(std::span<const std::size_t> rows);

 private:
  Tensor keys_, values_;
  std::size_t length_ = 0;
  bool owned_ = false;  // no other handle refers to the memory of the tensors
};

}  // namespace tapestry
