#include "autograd/random.h"

#include <cmath>
#include <numbers>

#include "autograd/kernels/philox.h"

namespace tapestry {
namespace {

// Counters of philox below 2^64 (high word 0) draw numbers; these high words derive keys.
constexpr std::uint64_t derive_by_name = 1;
constexpr std::uint64_t derive_by_index = 2;

std::uint64_t joined(std::uint32_t low, std::uint32_t high) {
  return low | (static_cast<std::uint64_t>(high) << 32);
}

std::uint64_t derived(std::uint64_t key, std::uint64_t value, std::uint64_t kind) {
  const auto words = kernels::philox(key, value, kind);
  return joined(words[0], words[1]);
}

/// FNV-1a, 64 bits.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return h;
}

/// The middle of one of 2^52 equal parts of (0, 1). With 53 bits the last one would round to 1.
double open_unit(std::uint64_t bits) { return (static_cast<double>(bits >> 12) + 0.5) * 0x1.0p-52; }

}  // namespace

RandomStream RandomStream::named(std::string_view name) const {
  return on_ ? RandomStream(derived(key_, hash(name), derive_by_name)) : RandomStream();
}

RandomStream RandomStream::at(std::uint64_t index) const {
  return on_ ? RandomStream(derived(key_, index, derive_by_index)) : RandomStream();
}

double RandomStream::uniform(std::uint64_t counter) const {
  const auto words = kernels::philox(key_, counter, 0);
  return open_unit(joined(words[0], words[1]));
}

double RandomStream::normal(std::uint64_t counter) const {
  const auto words = kernels::philox(key_, counter, 0);
  const double radius = std::sqrt(-2.0 * std::log(open_unit(joined(words[0], words[1]))));
  return radius * std::cos(2.0 * std::numbers::pi * open_unit(joined(words[2], words[3])));
}

}  // namespace tapestry
