#include "tests/train/recording/png_pixels.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <string_view>

namespace tapestry::test {
namespace {

constexpr std::size_t channels = 3;

std::size_t big_endian(std::string_view bytes) {
  std::size_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8U | static_cast<unsigned char>(byte);
  return value;
}

const Bytef* raw(std::string_view bytes) { return reinterpret_cast<const Bytef*>(bytes.data()); }

/// Removes the first chunk, which must have this type, from `rest`; returns its content.
std::string_view take_chunk(std::string_view& rest, std::string_view type) {
  REQUIRE(rest.size() >= 12);
  const std::size_t size = big_endian(rest);
  REQUIRE(rest.size() >= 12 + size);
  REQUIRE(rest.substr(4, 4) == type);
  const std::string_view checked = rest.substr(4, 4 + size);
  CHECK(big_endian(rest.substr(8 + size)) ==
        ::crc32(0, raw(checked), static_cast<uInt>(checked.size())));
  rest.remove_prefix(12 + size);
  return checked.substr(4);
}

}  // namespace

std::vector<std::uint8_t> PngPixels::at(std::size_t y, std::size_t x) const {
  const auto first = values.begin() + static_cast<std::ptrdiff_t>((y * width + x) * channels);
  return {first, first + channels};
}

PngPixels decode_png(const std::string& png) {
  std::string_view rest = png;
  REQUIRE(rest.substr(0, 8) == "\x89PNG\r\n\x1A\n");
  rest.remove_prefix(8);
  const std::string_view header = take_chunk(rest, "IHDR");
  REQUIRE(header.size() == 13);
  PngPixels image{.height = big_endian(header.substr(4)), .width = big_endian(header)};
  CHECK(header.substr(8) == std::string_view("\x08\x02\0\0\0", 5));
  const std::string_view data = take_chunk(rest, "IDAT");
  CHECK(take_chunk(rest, "IEND").empty());
  CHECK(rest.empty());

  const std::size_t row_bytes = 1 + image.width * channels;
  std::vector<Bytef> rows(image.height * row_bytes + 1);  // one more, to detect too many
  uLongf size = rows.size();
  REQUIRE(::uncompress(rows.data(), &size, raw(data), data.size()) == Z_OK);
  REQUIRE(size == image.height * row_bytes);
  for (std::size_t y = 0; y < image.height; ++y) {
    const auto row = rows.begin() + static_cast<std::ptrdiff_t>(y * row_bytes);
    CHECK(*row == 0);  // no filter
    image.values.insert(image.values.end(), row + 1, row + static_cast<std::ptrdiff_t>(row_bytes));
  }
  return image;
}

}  // namespace tapestry::test
