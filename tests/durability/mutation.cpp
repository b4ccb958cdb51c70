#include "tests/durability/mutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace tapestry::test {
namespace {

constexpr std::size_t user_block_size = 512;

std::size_t below(std::size_t end, Random& random) { return end == 0 ? 0 : random() % end; }

/// A position that is often in the user block or near it.
std::size_t position_in(const Bytes& file, Random& random) {
  constexpr std::array<std::size_t, 4> ends{56, user_block_size, 16 * 1024, ~std::size_t{0}};
  return below(std::min(file.size(), ends[random() % ends.size()]), random);
}

/// A range of 1 to `longest` bytes inside the file.
std::span<std::byte> range_in(Bytes& file, std::size_t longest, Random& random) {
  const std::size_t begin = position_in(file, random);
  const std::size_t size = 1 + below(longest, random);
  return std::span(file).subspan(begin, std::min(size, file.size() - begin));
}

std::uint64_t telling_number(const Bytes& file, Random& random) {
  const std::array<std::uint64_t, 10> numbers{0,
                                              1,
                                              7,
                                              file.size() - 1,
                                              file.size(),
                                              file.size() + 1,
                                              std::uint64_t{1} << 31,
                                              std::uint64_t{1} << 32,
                                              std::uint64_t{1} << 63,
                                              ~std::uint64_t{0}};
  return numbers[random() % numbers.size()];
}

using Mutation = std::string (*)(Bytes& file, std::span<const std::byte> other, Random& random);

std::string flip_bits(Bytes& file, std::span<const std::byte> /*other*/, Random& random) {
  const std::size_t count = 1 + random() % 8;
  for (std::size_t i = 0; i < count; ++i) {
    file[position_in(file, random)] ^= std::byte{1} << (random() % 8);
  }
  return fmt::format("{} bits flipped", count);
}

std::string set_byte(Bytes& file, std::span<const std::byte> /*other*/, Random& random) {
  const std::size_t at = position_in(file, random);
  file[at] = static_cast<std::byte>(random());
  return fmt::format("byte {} set", at);
}

std::string set_number(Bytes& file, std::span<const std::byte> /*other*/, Random& random) {
  const std::size_t at = position_in(file, random) / 8 * 8;
  const std::uint64_t number = telling_number(file, random);
  std::memcpy(file.data() + at, &number, std::min<std::size_t>(8, file.size() - at));
  return fmt::format("{} set at {}", number, at);
}

std::string truncate(Bytes& file, std::span<const std::byte> /*other*/, Random& random) {
  file.resize(position_in(file, random));
  return fmt::format("cut to {} bytes", file.size());
}

std::string extend(Bytes& file, std::span<const std::byte> /*other*/, Random& random) {
  const std::size_t size = 1 + below(5000, random);
  file.resize(file.size() + size, static_cast<std::byte>(random()));
  return fmt::format("{} bytes added", size);
}

std::string swap_ranges(Bytes& file, std::span<const std::byte> /*other*/, Random& random) {
  const auto a = range_in(file, 512, random), b = range_in(file, 512, random);
  const std::size_t size = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < size; ++i) std::swap(a[i], b[i]);
  return fmt::format("{} bytes swapped", size);
}

std::string zero_page(Bytes& file, std::span<const std::byte> /*other*/, Random& random) {
  const std::size_t page = random() % 2 == 0 ? 512 : 4096;
  const std::size_t begin = position_in(file, random) / page * page;
  const auto zeroed = std::span(file).subspan(begin, std::min(page, file.size() - begin));
  std::ranges::fill(zeroed, std::byte{0});
  return fmt::format("{} bytes from {} zeroed", zeroed.size(), begin);
}

std::string splice(Bytes& file, std::span<const std::byte> other, Random& random) {
  const auto to = range_in(file, 2048, random);
  const Bytes copy = random() % 2 == 0 ? file : Bytes(other.begin(), other.end());
  const std::size_t from = below(copy.size(), random);
  const std::size_t size = std::min(to.size(), copy.size() - from);
  std::copy_n(copy.begin() + static_cast<std::ptrdiff_t>(from), size, to.begin());
  return fmt::format("{} bytes copied from {}", size, from);
}

}  // namespace

std::string mutate(Bytes& file, std::span<const std::byte> other, Random& random) {
  constexpr std::array<Mutation, 8> mutations{flip_bits, set_byte,    set_number, truncate,
                                              extend,    swap_ranges, zero_page,  splice};
  std::string done;
  const std::size_t count = 1 + random() % 3;
  for (std::size_t i = 0; i < count && !file.empty(); ++i) {
    done += (i > 0 ? ", " : "") + mutations[random() % mutations.size()](file, other, random);
  }
  return done;
}

}  // namespace tapestry::test
