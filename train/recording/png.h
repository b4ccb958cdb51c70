#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tapestry {

/// The bytes of a PNG file with 8 bits per channel (ISO/IEC 15948), compressed by zlib.
///
/// values   (height, width, 3): red, green and blue; row-major
/// throws   ValueError unless there are as many values, at least one pixel, and at most 2^28 bytes;
///          std::bad_alloc
std::string encode_png(std::size_t height, std::size_t width, std::span<const std::uint8_t> values);

}  // namespace tapestry
