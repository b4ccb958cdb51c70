// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>

#include "data/io/error.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "data/readers/image_arrays.h"

namespace tapestry {
namespace {

// ---- Arrays

/// The type of the elements: "<f4" is {'f', 4, false}.
struct NpyType {
  char kind = 0;         ///< numpy's type code: b, i, u, f, S (bytes), U (UTF-32), ...
  std::size_t size = 0;  ///< in bytes
  bool big_endian = false;
};

struct NpyHeader {
  NpyType type;
  bool fortran_order = false;  ///< whether the first axis varies fastest
  ArrayShape shape;
};

/// A view of an array. The caller owns the bytes.
struct NpyArray {
  NpyHeader header;
  std::span<const std::byte> data;  ///< the elements, without the header
};

/// The name of a type in messages, such as "float32" or "text".
std::string type_name(const NpyType& type) {
  switch (type.kind) {
    case 'b':
      return "bool";
    case 'i':
      return fmt::format("int{}", 8 * type.size);
    case 'u':
      return fmt::format("uint{}", 8 * type.size);
    case 'f':
      return fmt::format("float{}", 8 * type.size);
    case 'c':
      return fmt::format("complex{}", 8 * type.size);
    case 'S':
    case 'U':
      return "text";
    default:
      return fmt::format("numpy's type {}", type.kind);
  }
}

constexpr const char* write_again = "write the file again with numpy.save()";

/// For example "uint8 of shape (60000, 28, 28)".
std::string describe(const NpyHeader& header) {
  return fmt::format("{} of shape {}", type_name(header.type), to_string(header.shape));
}

/// Parses the dictionary of a header, a Python literal such as
///
///     {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& name)
      : text_(text), rest_(text), name_(name) {}

  NpyHeader read() {
    require("{");
    while (!consume("}")) {
      read_entry();
      if (!consume(",") && !rest_.starts_with('}')) reject_header();
    }
    skip_space();
    if (!rest_.empty() || !type_ || !fortran_order_ || !shape_) reject_header();
    return {*type_, *fortran_order_, *shape_};
  }

 private:
  static constexpr std::size_t max_axes = 32;  // the limit in numpy 1

  void read_entry() {
    const std::string_view key = quoted();
    require(":");
    if (key == "descr" && !type_) {
      type_ = type();
    } else if (key == "fortran_order" && !fortran_order_) {
      fortran_order_ = consume("True");
      if (!*fortran_order_) require("False");
    } else if (key == "shape" && !shape_) {
      shape_ = shape();
    } else {
      reject_header();
    }
  }

  /// Parses a byte order, a kind and a size; the unit of a time type is skipped.
  NpyType type() {
    skip_space();
    if (rest_.starts_with('[')) {
      reject_data(name_, "an array of structures, expected an array of numbers",
                  "save the images and the labels as separate arrays");
    }
    std::string_view text = quoted();
    const bool whole = text.size() >= 2 && std::string_view("<>|=").find(text[0]) != text.npos &&
                       text[1] >= 'A' && text[1] <= 'z';
    if (!whole) reject_header();
    NpyType type{.kind = text[1], .big_endian = text[0] == '>'};
    text.remove_prefix(2);
    if (type.kind == 'O') {
      reject_data(
          name_, "an array of Python objects, expected an array of numbers or text",
          "convert it, in numpy with images.astype(\"float32\"), or labels.astype(\"int64\") or "
          "labels.astype(\"U\")");
    }
    type.size = number(text);
    const bool time = type.kind == 'M' || type.kind == 'm';
    if (!text.empty() && !time) reject_header();
    if (type.kind == 'U') type.size *= 4;
    return type;
  }

  ArrayShape shape() {
    ArrayShape shape;
    require("(");
    while (!consume(")")) {
      skip_space();
      shape.push_back(number(rest_));
      consume("L");  // written by Python 2
      if (shape.size() > max_axes || (!consume(",") && !rest_.starts_with(')'))) reject_header();
    }
    return shape;
  }

  /// Removes the digits at the front of a text and returns their value.
  std::uint64_t number(std::string_view& text) const {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number > max_number) reject_header();
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
  }

  std::string_view quoted() {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '\'' && quote != '"') reject_header();
    const std::size_t end = rest_.find(quote, 1);
    if (end == rest_.npos) reject_header();
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    skip_space();
    return text;
  }

  bool consume(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    skip_space();
    return true;
  }

  void require(std::string_view word) {
    if (!consume(word)) reject_header();
  }

  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }

  [[noreturn]] void reject_header() const {
    reject_data(name_,
                fmt::format("the header {}, expected {{'descr': ..., 'fortran_order': ..., "
                            "'shape': ...}}",
                            excerpt(text_)),
                write_again);
  }

  /// The largest number that is accepted in the header. Four times this number does not overflow.
  static constexpr std::uint64_t max_number = std::numeric_limits<std::uint64_t>::max() / 4;

  std::string_view text_, rest_;
  const std::string& name_;
  std::optional<NpyType> type_;
  std::optional<bool> fortran_order_;
  std::optional<ArrayShape> shape_;
};

/// Parses a file in the format of numpy.save() (numpy.lib.format, versions 1.0, 2.0 and 3.0). The
/// file may be untrusted; no memory is allocated for sizes in the header.
///
/// name    file name in errors, escaped
/// throws  DataError if the file is not in this format, has a structured type or Python objects, or
///         has a size that does not match its type and shape
///
/// Parses the magic bytes, two version bytes, the length of the header (2 bytes in version 1, 4 in
/// later versions), the header and the elements.
NpyArray parse_npy(std::span<const std::byte> file, const std::string& name) {
  constexpr std::string_view magic = "\x93NUMPY";
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const BinaryFormat* const format = detect_binary_format(text);
  if (format != nullptr && format->magic != magic) {
    reject_data(name, fmt::format("{}, expected a file that numpy.save() wrote", format->name),
                std::string(format->hint));
  }
  if (!text.starts_with(magic) || text.size() < magic.size() + 2) {
    reject_data(name, "no numpy array, expected a file that numpy.save() wrote", write_again);
  }
  const int major = static_cast<unsigned char>(text[6]),
            minor = static_cast<unsigned char>(text[7]);
  if (major < 1 || major > 3 || minor != 0) {
    reject_data(name,
                fmt::format("version {}.{} of the format, expected 1.0, 2.0 or 3.0", major, minor),
                write_again);
  }
  const std::size_t begin = major == 1 ? 10 : 12;
  std::uint32_t length = 0;
  if (file.size() >= begin) std::memcpy(&length, file.data() + 8, begin - 8);
  if (file.size() < begin || file.size() - begin < length) {
    reject_data(name, "the end of the file inside its header, expected an array after the header",
                write_again);
  }
  const NpyArray array{.header = HeaderReader(text.substr(begin, length), name).read(),
                       .data = file.subspan(begin + length)};
  const auto expected = byte_count(array.header.shape, array.header.type.size);
  if (array.data.size() != expected) {
    reject_data(name,
                fmt::format("{} bytes after the header, expected {}: {}", array.data.size(),
                            expected ? fmt::to_string(*expected) : "more than 2^64",
                            describe(array.header)),
                write_again);
  }
  return array;
}

// ---- Elements

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

/// Calls f with a function that reads an element of the type. Returns false if the type is neither
/// bool nor integer.
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

/// Like visit_integers(), for all numeric types.
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
      reject_data(
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
  const NpyArray images = parse_npy(image_file, name);
  const std::vector<std::byte> label_file = read_corpus_bytes(
      label_file_key(key), label_path, corpus,
      fmt::format("save the labels next to the images, with numpy.save(\"{}\", labels)",
                  escaped(label_path.filename().native())));
  const NpyArray labels = parse_npy(label_file, label_name);
  if (!visit_numbers(images.header.type, [](const auto&) {})) {
    reject_data(
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
