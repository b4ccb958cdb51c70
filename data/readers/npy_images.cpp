#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "data/io/error.h"
#include "data/io/utf8.h"
#include "data/readers/image_arrays.h"
#include "data/readers/npy_array.h"

namespace tapestry {
namespace {

/// Converts a float16, for which C++20 has no type.
float half_float(std::uint16_t bits) {
  const int exponent = bits >> 10U & 31U, mantissa = bits & 1023U;
  float value = 0.0F;
  if (exponent == 31) {
    value = mantissa == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    value = std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  }
  return std::copysign(value, (bits & 0x8000U) != 0 ? -1.0F : 1.0F);
}

template <class T>
T load(const std::byte* from, bool big_endian) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), from, sizeof(T));
  if (big_endian) std::ranges::reverse(bytes);
  return std::bit_cast<T>(bytes);
}

bool is(const NpyType& type, char kind, std::size_t size) {
  return type.kind == kind && type.size == size;
}

/// Calls f with a function that reads an element of the type; false if the type is not bool or
/// integer.
template <class F>
bool visit_integers(const NpyType& type, F&& f) {
  const auto as = [&]<class T>(T) {
    f([swap = type.big_endian](const std::byte* from) { return load<T>(from, swap); });
    return true;
  };
  if (is(type, 'u', 1)) return as(std::uint8_t{});
  if (is(type, 'u', 2)) return as(std::uint16_t{});
  if (is(type, 'u', 4)) return as(std::uint32_t{});
  if (is(type, 'u', 8)) return as(std::uint64_t{});
  if (is(type, 'i', 1)) return as(std::int8_t{});
  if (is(type, 'i', 2)) return as(std::int16_t{});
  if (is(type, 'i', 4)) return as(std::int32_t{});
  if (is(type, 'i', 8)) return as(std::int64_t{});
  if (!is(type, 'b', 1)) return false;
  f([](const std::byte* from) { return static_cast<int>(*from != std::byte{0}); });
  return true;
}

/// The same for all numeric types.
template <class F>
bool visit_numbers(const NpyType& type, F&& f) {
  const bool swap = type.big_endian;
  if (is(type, 'f', 2)) {
    f([swap](const std::byte* from) { return half_float(load<std::uint16_t>(from, swap)); });
  } else if (is(type, 'f', 4)) {
    f([swap](const std::byte* from) { return load<float>(from, swap); });
  } else if (is(type, 'f', 8)) {
    f([swap](const std::byte* from) { return load<double>(from, swap); });
  } else {
    return visit_integers(type, f);
  }
  return true;
}

/// The text of an element of numpy's type S, which is padded with NUL at its end.
std::string bytes_text(const std::byte* from, const NpyType& type) {
  std::string text(reinterpret_cast<const char*>(from), type.size);
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

/// The text of an element of numpy's type U: UTF-32, padded with NUL at its end. An invalid code
/// point becomes a byte that is not valid UTF-8.
std::string utf32_text(const std::byte* from, const NpyType& type) {
  std::string text;
  for (std::size_t i = 0; i < type.size; i += 4) {
    const auto code = load<std::uint32_t>(from + i, type.big_endian);
    if (code < 0xD800 || (code > 0xDFFF && code <= 0x10FFFF)) {
      append_utf8(text, static_cast<char32_t>(code));
    } else {
      text += '\xFF';
    }
  }
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

// ---- Images.

void add_labels(ImageArrays& to, const NpyArray& labels, const std::string& name) {
  const NpyType& type = labels.header.type;
  const auto add = [&](const auto& label) {
    for (std::size_t i = 0; i < to.size(); ++i) to.add(label(labels.data.data() + i * type.size));
  };
  if (type.kind == 'S') {
    add([&](const std::byte* from) { return bytes_text(from, type); });
  } else if (type.kind == 'U') {
    add([&](const std::byte* from) { return utf32_text(from, type); });
  } else {
    const bool whole = visit_integers(type, [&](const auto& load_number) {
      add([&](const std::byte* from) { return fmt::to_string(load_number(from)); });
    });
    if (!whole) {
      refuse_data(
          name, fmt::format("labels of {}, expected integers or text", type_name(type)),
          "convert them, in numpy with labels.astype(\"int64\"), or astype(\"U\") if they are "
          "text");
    }
  }
}

/// The offsets of the first image's elements in the array, in row-major order.
std::vector<std::size_t> offsets_in_image(const NpyHeader& header, std::size_t values) {
  std::vector<std::size_t> offsets(values);
  std::iota(offsets.begin(), offsets.end(), std::size_t{0});
  if (!header.fortran_order) return offsets;
  for (std::size_t& offset : offsets) {
    std::size_t place = offset, stride = header.shape.front() * values;
    offset = 0;
    for (std::size_t axis = header.shape.size(); --axis > 0; place /= header.shape[axis]) {
      stride /= header.shape[axis];
      offset += place % header.shape[axis] * stride;
    }
  }
  return offsets;
}

void set_pixels(ImageArrays& to, const NpyArray& images) {
  const NpyHeader& header = images.header;
  const std::vector<std::size_t> offsets = offsets_in_image(header, to.values());
  const std::size_t between_images = header.fortran_order ? 1 : to.values();
  visit_numbers(header.type, [&](const auto& load_number) {
    std::vector<decltype(load_number(images.data.data()))> values(to.values());
    for (std::size_t image = 0; image < to.size(); ++image) {
      std::ranges::transform(offsets, values.begin(), [&](std::size_t offset) {
        return load_number(images.data.data() +
                           (image * between_images + offset) * header.type.size);
      });
      to.set_pixels(image, std::span(std::as_const(values)));
    }
  });
}

}  // namespace

ImageFile read_npy_images(const std::string& key, const std::filesystem::path& path,
                          const ImageOptions& options, Corpus& corpus) {
  std::filesystem::path label_path = path;
  label_path.replace_extension(".labels" + path.extension().string());
  const std::string name = escaped(path.native()), label_name = escaped(label_path.native());
  const std::vector<std::byte> image_file = read_corpus_bytes(key, path, corpus);
  const std::vector<std::byte> label_file = read_corpus_bytes(
      label_file_key(key), label_path, corpus,
      fmt::format("save the labels beside the images, with numpy.save(\"{}\", labels)",
                  escaped(label_path.filename().native())));
  const NpyArray images = parse_npy(image_file, name);
  const NpyArray labels = parse_npy(label_file, label_name);
  if (!visit_numbers(images.header.type, [](const auto&) {})) {
    refuse_data(
        name,
        fmt::format("images of {}, expected bool, int8 to int64, uint8 to uint64 or float16 to "
                    "float64",
                    type_name(images.header.type)),
        "convert them, in numpy with images.astype(\"float32\")");
  }
  ImageArrays arrays({.images = name, .labels = label_name}, images.header.shape,
                     labels.header.shape, options);
  add_labels(arrays, labels, label_name);
  set_pixels(arrays, images);
  return arrays.take();
}

}  // namespace tapestry
