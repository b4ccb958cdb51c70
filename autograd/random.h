#pragma once

#include <cstdint>
#include <string_view>

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
  RandomStream() = default;
  explicit RandomStream(std::uint64_t seed) : key_(seed), on_(true) {}

  bool on() const { return on_; }
  std::uint64_t key() const { return key_; }

  /// A stream independent of this one and of streams with other names or numbers; off if this is
  /// off.
  RandomStream named(std::string_view name) const;
  RandomStream at(std::uint64_t index) const;

  /// The random number for `counter`, uniform in (0, 1), excluding both ends, with 52 bits.
  double uniform(std::uint64_t counter) const;
  /// The random number for `counter`, standard normal (Box-Muller).
  double normal(std::uint64_t counter) const;

 private:
  std::uint64_t key_ = 0;
  bool on_ = false;
};

}  // namespace tapestry
