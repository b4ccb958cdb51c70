#include "train/recording/png.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "autograd/error.h"
#include "tests/train/recording/png_pixels.h"

namespace tapestry {
namespace {

TEST_CASE("a PNG file has its signature, size and pixels") {
  const std::string png = encode_png(1, 2, std::vector<std::uint8_t>{255, 0, 0, 0, 0, 255});
  CHECK(png.substr(0, 8) == "\x89PNG\r\n\x1A\n");
  // Chunk length, IHDR, width 2, height 1, 8 bits, RGB; CRC-32 as Python's zlib.crc32 has it.
  CHECK(png.substr(8, 25) == std::string("\0\0\0\x0DIHDR\0\0\0\x02\0\0\0\x01\x08\x02\0\0\0"
                                         "\x7B\x40\xE8\xDD",
                                         25));
  CHECK(png.substr(png.size() - 12) == std::string("\0\0\0\0IEND\xAE\x42\x60\x82", 12));
}

TEST_CASE("the pixels of a PNG file are in rows from the top, without filters") {
  std::vector<std::uint8_t> values(3 * 2 * 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(15 * i);
  const test::PngPixels image = test::decode_png(encode_png(3, 2, values));
  CHECK(image.height == 3);
  CHECK(image.width == 2);
  CHECK(image.values == values);
  CHECK(image.at(2, 0) == std::vector<std::uint8_t>{180, 195, 210});
}

TEST_CASE("a PNG file of another number of values is refused") {
  CHECK_THROWS_WITH_AS(encode_png(2, 2, std::vector<std::uint8_t>(11)),
                       "encode_png: found 11 values for 2 x 2 pixels, expected 12", ValueError);
  CHECK_THROWS_AS(encode_png(0, 2, {}), ValueError);
}

}  // namespace
}  // namespace tapestry
