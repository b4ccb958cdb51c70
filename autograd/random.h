// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "autograd/ids.h"
#include "autograd/tensor.h"

namespace tapestry {

/// A stream of random numbers that is a pure function of its key and a counter (Philox4x32-10 [1]),
/// so that random numbers do not depend on threads or on previous calls. Streams are split by name
/// and by number:
///
///     RandomStream(seed).named("dropout").at(step)
///
/// A default-constructed stream is off: dropout with this stream does nothing, as in inference.
///
/// [1] Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
class RandomStream {
 public:
  /// A stream that is off.
  RandomStream() = default;
  /// The stream of a seed; all seeds are equally good.
  explicit RandomStream(std::uint64_t seed) : key_(seed), on_(true) {}

  /// Whether this stream has random numbers; false if it was default-constructed.
  bool on() const { return on_; }
  /// The key that determines all numbers of the stream.
  std::uint64_t key() const { return key_; }

  /// A stream independent of this one and of streams with other names or numbers; off if this
  /// stream is off.
  RandomStream named(std::string_view name) const;
  /// The stream of a number, such as the number of a step; off if this stream is off.
  RandomStream at(std::uint64_t index) const;

  /// The random number for `counter`, uniform in (0, 1), excluding both ends, with 52 bits.
  double uniform(std::uint64_t counter) const;
  /// The random number for `counter`, standard normal (Box-Muller): mean 0, variance 1.
  double normal(std::uint64_t counter) const;

 private:
  std::uint64_t key_ = 0;
  bool on_ = false;
};

/// Independent uniform random numbers: value i is low + (high - low) * random.uniform(i), so a
/// tensor depends only on the stream and on its size. Use a separate stream for each tensor:
/// `RandomStream(seed).named("noise").at(step)`.
///
/// low, high  finite, low <= high
/// returns    values in [low, high), or low if low = high; both element types have the same values
///            up to rounding.
/// throws     ValueError if the stream is off or the limits are out of range.
Tensor random_uniform(const Shape& shape, const RandomStream& random, double low = 0.0,
                      double high = 1.0, DType dtype = DType::float32);
/// Independent uniform random numbers in [0, 1), in the given element type.
inline Tensor random_uniform(const Shape& shape, const RandomStream& random, DType dtype) {
  return random_uniform(shape, random, 0.0, 1.0, dtype);
}

/// Independent normal random numbers: value i is mean + standard_deviation * random.normal(i).
/// Otherwise the same as `random_uniform`.
///
/// mean, standard_deviation  finite, standard_deviation >= 0
/// throws                    ValueError if the stream is off or a number is out of range.
Tensor random_normal(const Shape& shape, const RandomStream& random, double mean = 0.0,
                     double standard_deviation = 1.0, DType dtype = DType::float32);
/// Independent normal random numbers with mean 0 and standard deviation 1, in the given element
/// type.
inline Tensor random_normal(const Shape& shape, const RandomStream& random, DType dtype) {
  return random_normal(shape, random, 0.0, 1.0, dtype);
}

/// Independent random whole numbers, like torch.randint: value i is
/// low + floor((high - low) * random.uniform(i)).
///
/// low, high  low < high
/// returns    ids in [low, high)
/// throws     ValueError if the stream is off or low >= high.
Ids random_ids(const Shape& shape, const RandomStream& random, std::int32_t low, std::int32_t high);

/// The numbers 0 to n - 1 in random order, like torch.randperm. Fisher-Yates: for
/// i = n - 1, ..., 1, swaps number i with number floor((i + 1) * random.uniform(i)). Its slices
/// split a data set:
///
///     const Ids order = random_permutation(x.shape()[0], RandomStream(seed).named("split"));
///     const Tensor train_x = x[slice(order, 0, 0, 800)], test_x = x[slice(order, 0, 800, 1000)];
///
/// n        at most 2^31, because ids are int32
/// returns  ids of shape (n), each of [0, n) once
/// throws   ValueError if the stream is off or n is more than 2^31.
Ids random_permutation(std::size_t n, const RandomStream& random);

/// Samples an index from each row of logits, like mlx.random.categorical or
/// torch.distributions.Categorical(logits=logits).sample(): index j with the probability
/// p_j = softmax(logits)_j. To sample at a temperature T, pass logits / T.
///
/// Row r gives the smallest j with p_0 + ... + p_j > random.uniform(r) (inverse transform
/// sampling), in float64.
///
/// logits   (..., n), n >= 1; -inf has probability 0
/// returns  (...), each in [0, n)
/// throws   ShapeError if logits are a scalar or the last axis is empty; ValueError if the stream
///          is off or the maximum of a row is not finite.
Ids random_categorical(const Tensor& logits, const RandomStream& random);

}  // namespace tapestry
