// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <utility>

#include "autograd/error.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/philox.h"
#include "autograd/kernels/portable_math.h"

namespace tapestry {
namespace {

// Philox counters below 2^64 (high word 0) give random numbers; counters with these high words give
// keys of other streams.
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

/// The middle of one of 2^52 equal parts of (0, 1). With 53 bits, the middle of the last part would
/// round to 1.
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
  const double radius = std::sqrt(-2.0 * portable::log(open_unit(joined(words[0], words[1]))));
  return radius * portable::cos(2.0 * std::numbers::pi * open_unit(joined(words[2], words[3])));
}

namespace {

void require_on(const char* operation, const RandomStream& random) {
  if (random.on()) return;
  throw ValueError(
      fmt::format("{}: the random stream is off, expected a stream with a seed, such as "
                  "RandomStream(1)",
                  operation));
}

/// The numbers draw(i), converted to `dtype` by `rounded`.
template <class Draw, class Round>
Tensor drawn(const Shape& shape, DType dtype, const Draw& draw, const Round& rounded) {
  // Drawing a number takes as long as about ten operations on an element.
  constexpr std::size_t per_piece = kernels::elements_per_piece / 16;
  Tensor result = Tensor::empty(shape, dtype);
  dispatch(dtype, [&]<class T>() {
    T* const values = result.mutable_values<T>().data();
    kernels::parallel_ranges(result.size(), per_piece, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) values[i] = rounded(static_cast<T>(draw(i)));
    });
  });
  return result;
}

}  // namespace

Tensor random_uniform(const Shape& shape, const RandomStream& random, double low, double high,
                      DType dtype) {
  require_on("random_uniform", random);
  if (!(low <= high && std::isfinite(high - low))) {
    throw ValueError(
        fmt::format("random_uniform: the limits are {} and {}, expected finite low <= high",
                    printable(low), printable(high)));
  }
  return drawn(
      shape, dtype, [&](std::uint64_t i) { return low + (high - low) * random.uniform(i); },
      [&]<class T>(T value) {
        const T end = static_cast<T>(high);
        return value < end ? value : std::nextafter(end, static_cast<T>(low));
      });
}

Tensor random_normal(const Shape& shape, const RandomStream& random, double mean,
                     double standard_deviation, DType dtype) {
  require_on("random_normal", random);
  if (!(std::isfinite(mean) && std::isfinite(standard_deviation) && standard_deviation >= 0.0)) {
    throw ValueError(
        fmt::format("random_normal: mean and standard deviation are {} and {}, expected finite "
                    "numbers, standard deviation >= 0",
                    printable(mean), printable(standard_deviation)));
  }
  return drawn(
      shape, dtype, [&](std::uint64_t i) { return mean + standard_deviation * random.normal(i); },
      [](auto value) { return value; });
}

Ids random_ids(const Shape& shape, const RandomStream& random, std::int32_t low,
               std::int32_t high) {
  require_on("random_ids", random);
  if (low >= high) {
    throw ValueError(
        fmt::format("random_ids: the limits are {} and {}, expected low < high", low, high));
  }
  const double count = static_cast<double>(high) - low;
  Ids result = Ids::zeros(shape);
  for (std::size_t i = 0; i < result.size(); ++i) {
    // For the largest numbers of a stream, the product may be rounded up to `count`.
    const double offset = std::min(std::floor(count * random.uniform(i)), count - 1.0);
    result[i] = static_cast<std::int32_t>(low + offset);
  }
  return result;
}

Ids random_permutation(std::size_t n, const RandomStream& random) {
  require_on("random_permutation", random);
  if (n > std::size_t{1} << 31) {
    throw ValueError(fmt::format("random_permutation: n is {}, expected at most 2^31", n));
  }
  Ids order = Ids::arange(n);
  for (std::size_t i = n; i-- > 1;) {
    const auto drawn = static_cast<std::size_t>(static_cast<double>(i + 1) * random.uniform(i));
    std::swap(order[i], order[std::min(drawn, i)]);
  }
  return order;
}

namespace {

/// Rejects a row of logits whose maximum is NaN or infinite.
template <class T>
void require_finite_maximum(std::span<const T> row, const Ids& rows, std::size_t r) {
  const auto odd = std::ranges::find_if(
      row, [](T x) { return std::isnan(x) || x == std::numeric_limits<T>::infinity(); });
  if (odd == row.end() && std::isfinite(std::ranges::max(row))) return;
  throw ValueError(
      fmt::format("random_categorical: row {} of the logits has the maximum {}, expected a finite "
                  "one",
                  rows.place(r), printable(odd == row.end() ? row.front() : *odd)));
}

/// The first index whose cumulative probability exceeds `uniform`.
template <class T>
std::size_t sampled_index(std::span<const T> logits, double uniform) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  const auto weight = [&](std::size_t j) { return portable::exp(logits[j] - largest); };
  double sum = 0.0;
  for (std::size_t j = 0; j < logits.size(); ++j) sum += weight(j);
  const double threshold = std::min(uniform * sum, std::nextafter(sum, 0.0));
  std::size_t j = 0;
  for (double cumulative = weight(0); cumulative <= threshold; cumulative += weight(j)) ++j;
  return j;
}

}  // namespace

Ids random_categorical(const Tensor& logits, const RandomStream& random) {
  require_on("random_categorical", random);
  if (logits.rank() == 0 || logits.shape().back() == 0) {
    throw ShapeError(
        fmt::format("random_categorical: logits have shape {}, expected (..., n) with n >= 1",
                    to_string(logits.shape())));
  }
  const std::size_t n = logits.shape().back();
  Ids result = Ids::zeros(logits.shape().erased(logits.rank() - 1));
  dispatch(logits.dtype(), [&]<class T>() {
    for (std::size_t r = 0; r < result.size(); ++r) {
      const auto row = logits.values<T>().subspan(r * n, n);
      require_finite_maximum(row, result, r);
      result[r] = static_cast<std::int32_t>(sampled_index(row, random.uniform(r)));
    }
  });
  return result;
}

}  // namespace tapestry
