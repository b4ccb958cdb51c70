#pragma once

#include <cstdint>
#include <string_view>

namespace tapestry {

/// A stream of random numbers that is a pure function of its key and of a counter (Philox4x32-10
/// [1]), so that random numbers depend on neither threads nor history. Streams split by name and by
/// number:
///
///     RandomStream(seed).named("dropout").at(step)
///
/// A default-constructed stream is off: dropout told to use it does nothing, which is inference.
///
/// [1] Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
class RandomStream {
 public:
  RandomStream() = default;
  explicit RandomStream(std::uint64_t seed) : key_(seed), on_(true) {}

  bool on() const { return on_; }
  std::uint64_t key() const { return key_; }

  /// Streams independent of this one and of those with another name or number; off if this is off.
  RandomStream named(std::string_view name) const;
  RandomStream at(std::uint64_t index) const;

  /// The counter-th number, uniform in (0, 1), both ends excluded, with 52 bits.
  double uniform(std::uint64_t counter) const;
  /// The counter-th number, standard normal (Box-Muller).
  double normal(std::uint64_t counter) const;

 private:
  std::uint64_t key_ = 0;
  bool on_ = false;
};

}  // namespace tapestry
