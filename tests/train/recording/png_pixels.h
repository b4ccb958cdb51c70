#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tapestry::test {

/// A decoded PNG file with 8 bits per channel, red, green and blue, and rows without filters.
struct PngPixels {
  std::size_t height = 0, width = 0;
  std::vector<std::uint8_t> values{};  ///< (height, width, 3), row-major

  /// The red, green and blue of a pixel.
  std::vector<std::uint8_t> at(std::size_t y, std::size_t x) const;
};

/// Decodes a file of encode_png() with zlib. Fails the test if the chunks, their checksums, the
/// size of the inflated data or a filter byte are not as expected.
PngPixels decode_png(const std::string& png);

}  // namespace tapestry::test
