#include "tests/durability/mutation.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "train/storage/checkpoint_file.h"
#include "train/storage/checkpoint_table.h"

namespace tapestry::test {
namespace {

// Fields of the envelope, as train/checkpoint/format.md has them.
constexpr std::size_t file_size_at = 16;
constexpr std::size_t table_size_at = 24;
constexpr std::size_t payload_digest_at = 40;
constexpr std::size_t checksum_at = 504;
constexpr std::size_t digest_in_entry = 16;

std::size_t below(std::size_t end, Random& random) { return end == 0 ? 0 : random() % end; }

/// A position that is often in the envelope or the table.
std::size_t position_in(const Bytes& file, Random& random) {
  constexpr std::array<std::size_t, 4> ends{56, envelope_size, 16 * 1024, ~std::size_t{0}};
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

std::uint64_t number_at(const Bytes& file, std::size_t offset) {
  std::uint64_t number = 0;
  std::memcpy(&number, file.data() + offset, sizeof number);
  return number;
}

void set_number_at(Bytes& file, std::size_t offset, std::uint64_t number) {
  std::memcpy(file.data() + offset, &number, sizeof number);
}

/// Walks the table as far as it makes sense. Each entry is a head of 32 bytes, axes and a path.
void renew_array_digests(Bytes& file) {
  const std::uint64_t table_end = envelope_size + number_at(file, table_size_at);
  std::uint64_t at = envelope_size + 8;
  while (table_end <= file.size() && at + 32 <= table_end) {
    const std::uint64_t offset = number_at(file, at), size = number_at(file, at + 8);
    if (offset <= file.size() && size <= file.size() - offset) {
      set_number_at(file, at + digest_in_entry,
                    array_digest(std::span(file).subspan(offset, size)));
    }
    const auto rank = static_cast<std::uint64_t>(file[at + 25]);
    const std::uint64_t path_length = number_at(file, at + 24) >> 16 & 0xffff;
    at += 32 + 8 * rank + (path_length + 7) / 8 * 8;
  }
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

void repair(Bytes& file, Random& random) {
  if (file.size() < envelope_size) return;
  if (random() % 4 != 0) set_number_at(file, file_size_at, file.size());
  if (random() % 2 == 0) renew_array_digests(file);
  const auto payload = std::span(file).subspan(envelope_size);
  const XXH128_hash_t digest = XXH3_128bits(payload.data(), payload.size());
  set_number_at(file, payload_digest_at, digest.low64);
  set_number_at(file, payload_digest_at + 8, digest.high64);
  set_number_at(file, checksum_at, XXH3_64bits(file.data(), checksum_at));
}

}  // namespace tapestry::test
