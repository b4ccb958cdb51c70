#include "train/recording/png.h"

#include <fmt/format.h>
#include <zlib.h>

#include <new>
#include <string_view>

#include "autograd/error.h"

namespace tapestry {
namespace {

std::string big_endian(std::size_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 255U);
  return bytes;
}

std::string chunk(std::string_view type, std::string_view content) {
  std::string checked(type);
  checked += content;
  const auto crc =
      ::crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return big_endian(content.size()) + checked + big_endian(crc);
}

std::string compressed(const std::string& bytes) {
  uLongf size = ::compressBound(bytes.size());
  std::string result(size, '\0');
  const int status = ::compress(reinterpret_cast<Bytef*>(result.data()), &size,
                                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (status != Z_OK) throw std::bad_alloc();
  result.resize(size);
  return result;
}

}  // namespace

std::string encode_png(std::size_t height, std::size_t width,
                       std::span<const std::uint8_t> values) {
  constexpr std::size_t channels = 3, most_bytes = std::size_t{1} << 28U;
  if (values.empty() || values.size() > most_bytes || values.size() != height * width * channels) {
    throw ValueError(fmt::format("encode_png: found {} values for {} x {} pixels, expected {}",
                                 values.size(), height, width, height * width * channels));
  }
  std::string rows;
  for (std::size_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    const auto row = values.subspan(y * width * channels, width * channels);
    rows.append(row.begin(), row.end());
  }
  constexpr std::string_view format{"\x08\x02\0\0\0", 5};  // 8 bits, RGB, not interlaced
  return "\x89PNG\r\n\x1A\n" +
         chunk("IHDR", big_endian(width) + big_endian(height) + std::string(format)) +
         chunk("IDAT", compressed(rows)) + chunk("IEND", {});
}

}  // namespace tapestry
