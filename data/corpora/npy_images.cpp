#include "data/corpora/npy_images.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "data/corpora/image_arrays.h"
#include "data/io/error.h"
#include "data/io/escape.h"
#include "data/io/file.h"
#include "data/io/utf8.h"

namespace tapestry {
namespace {

using Bytes = std::span<const std::byte>;

[[noreturn]] void refuse(const std::string& name, const std::string& found,
                         const std::string& hint = "write it anew, with numpy.save()") {
  throw DataError(fmt::format("{}: found {}", name, found), hint);
}

// ---- The header of a file.

/// The type of the elements: "<f4" is {'f', 4, false}.
struct NpyType {
  char kind = 0;         ///< numpy's: b, i, u, f, S (bytes), U (UTF-32), ...
  std::size_t size = 0;  ///< bytes
  bool big_endian = false;
};

struct NpyHeader {
  NpyType type;
  bool fortran_order = false;  ///< the first axis varies fastest
  ArrayShape shape;
};

/// "float32", "text", ...
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

/// "uint8 of shape (60000, 28, 28)"
std::string describe(const NpyHeader& header) {
  return fmt::format("{} of shape ({})", type_name(header.type), fmt::join(header.shape, ", "));
}

/// Reads the dictionary of a header, which is a literal of Python such as
///
///     {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& name)
      : text_(text), rest_(text), name_(name) {}

  NpyHeader read() {
    require("{");
    while (!take("}")) {
      read_entry();
      if (!take(",") && !rest_.starts_with('}')) refuse_header();
    }
    skip_space();
    if (!rest_.empty() || !type_ || !fortran_order_ || !shape_) refuse_header();
    return {*type_, *fortran_order_, *shape_};
  }

 private:
  static constexpr std::size_t most_axes = 32;  // of numpy 1

  void read_entry() {
    const std::string_view key = quoted();
    require(":");
    if (key == "descr" && !type_) {
      type_ = type();
    } else if (key == "fortran_order" && !fortran_order_) {
      fortran_order_ = take("True");
      if (!*fortran_order_) require("False");
    } else if (key == "shape" && !shape_) {
      shape_ = shape();
    } else {
      refuse_header();
    }
  }

  /// A byte order, a kind and a size; the units behind those of times are left out.
  NpyType type() {
    skip_space();
    if (rest_.starts_with('[')) {
      refuse(name_, "an array of structures, expected one of numbers",
             "save the images and the labels as arrays of their own");
    }
    std::string_view text = quoted();
    const bool whole = text.size() >= 2 && std::string_view("<>|=").find(text[0]) != text.npos &&
                       text[1] >= 'A' && text[1] <= 'z';
    if (!whole) refuse_header();
    NpyType type{.kind = text[1], .big_endian = text[0] == '>'};
    text.remove_prefix(2);
    if (type.kind == 'O') {
      refuse(name_, "an array of Python objects, expected one of numbers or text",
             "convert it, in numpy with images.astype(\"float32\"), or labels.astype(\"int64\") or "
             "labels.astype(\"U\")");
    }
    type.size = number(text);
    const bool time = type.kind == 'M' || type.kind == 'm';
    if (!text.empty() && !time) refuse_header();
    if (type.kind == 'U') type.size *= 4;
    return type;
  }

  ArrayShape shape() {
    ArrayShape shape;
    require("(");
    while (!take(")")) {
      skip_space();
      shape.push_back(number(rest_));
      take("L");  // of Python 2
      if (shape.size() > most_axes || (!take(",") && !rest_.starts_with(')'))) refuse_header();
    }
    return shape;
  }

  /// Takes the digits in front of a text away.
  std::uint64_t number(std::string_view& text) const {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number > largest_number) refuse_header();
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
  }

  std::string_view quoted() {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '\'' && quote != '"') refuse_header();
    const std::size_t end = rest_.find(quote, 1);
    if (end == rest_.npos) refuse_header();
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    skip_space();
    return text;
  }

  bool take(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    skip_space();
    return true;
  }

  void require(std::string_view word) {
    if (!take(word)) refuse_header();
  }

  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }

  [[noreturn]] void refuse_header() const {
    refuse(name_, fmt::format("the header {}, expected {{'descr': ..., 'fortran_order': ..., "
                              "'shape': ...}}",
                              excerpt(text_)));
  }

  /// Four times as much is no overflow.
  static constexpr std::uint64_t largest_number = std::numeric_limits<std::uint64_t>::max() / 4;

  std::string_view text_, rest_;
  const std::string& name_;
  std::optional<NpyType> type_;
  std::optional<bool> fortran_order_;
  std::optional<ArrayShape> shape_;
};

// ---- The elements.

/// An array of a file whose bytes are kept elsewhere.
struct NpyArray {
  NpyHeader header;
  Bytes data;  ///< exactly the elements of the header
};

/// The magic bytes, two of the version, the length of the header (2 bytes in version 1, 4 since),
/// the header and the elements.
NpyArray parse_array(Bytes file, const std::string& name) {
  constexpr std::string_view magic = "\x93NUMPY";
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(magic) || text.size() < magic.size() + 2) {
    refuse(name, "no array of numpy, expected a file that numpy.save() wrote");
  }
  const int major = static_cast<unsigned char>(text[6]),
            minor = static_cast<unsigned char>(text[7]);
  if (major < 1 || major > 3 || minor != 0) {
    refuse(name,
           fmt::format("version {}.{} of the format, expected 1.0, 2.0 or 3.0", major, minor));
  }
  const std::size_t begin = major == 1 ? 10 : 12;
  std::uint32_t length = 0;
  if (file.size() >= begin) std::memcpy(&length, file.data() + 8, begin - 8);
  if (file.size() < begin || file.size() - begin < length) {
    refuse(name, "the end of the file inside its header, expected an array behind it");
  }
  const NpyArray array{.header = HeaderReader(text.substr(begin, length), name).read(),
                       .data = file.subspan(begin + length)};
  const auto expected = byte_count(array.header.shape, array.header.type.size);
  if (array.data.size() != expected) {
    refuse(name, fmt::format("{} bytes behind the header, expected {}: {}", array.data.size(),
                             expected ? fmt::to_string(*expected) : "more than 2^64",
                             describe(array.header)));
  }
  return array;
}

/// A number of float16, which C++20 has no type for.
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

/// Calls f with the function that reads an element of the type; false if it is not a number.
template <class F>
bool visit_numbers(const NpyType& type, F&& f) {
  const auto as = [&]<class T>(T) {
    f([swap = type.big_endian](const std::byte* from) { return load<T>(from, swap); });
    return true;
  };
  const auto is = [&](char kind, std::size_t size) {
    return type.kind == kind && type.size == size;
  };
  if (is('u', 1)) return as(std::uint8_t{});
  if (is('u', 2)) return as(std::uint16_t{});
  if (is('u', 4)) return as(std::uint32_t{});
  if (is('u', 8)) return as(std::uint64_t{});
  if (is('i', 1)) return as(std::int8_t{});
  if (is('i', 2)) return as(std::int16_t{});
  if (is('i', 4)) return as(std::int32_t{});
  if (is('i', 8)) return as(std::int64_t{});
  if (is('f', 4)) return as(float{});
  if (is('f', 8)) return as(double{});
  if (is('b', 1)) {
    f([](const std::byte* from) { return static_cast<int>(*from != std::byte{0}); });
    return true;
  }
  if (is('f', 2)) {
    f([swap = type.big_endian](const std::byte* from) {
      return half_float(load<std::uint16_t>(from, swap));
    });
    return true;
  }
  return false;
}

/// Text of numpy's type S, which NUL fills up at its end.
std::string bytes_text(const std::byte* from, const NpyType& type) {
  std::string text(reinterpret_cast<const char*>(from), type.size);
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

/// Text of numpy's type U: UTF-32, which NUL fills up at its end. What is no character becomes a
/// byte that is not UTF-8.
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
    const bool whole =
        type.kind != 'f' && visit_numbers(type, [&](const auto& load_number) {
          add([&](const std::byte* from) { return fmt::to_string(load_number(from)); });
        });
    if (!whole) {
      refuse(name, fmt::format("labels of {}, expected whole numbers", type_name(type)),
             "convert them, in numpy with labels.astype(\"int64\"), or astype(\"U\") if they are "
             "words");
    }
  }
}

/// Where the elements of the first image are among those of all images, in row-major order.
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

/// Reads a file and adds it to those of the corpus.
BinaryFile read_file(const std::string& key, const std::filesystem::path& path,
                     const std::string& hint, Corpus& corpus) try {
  BinaryFile file = read_binary_file(path);
  corpus.files.push_back({key, path, file.bytes.size(), file.digest});
  return file;
} catch (const UnopenedFile& error) {
  throw DataError(error.what(), hint);
}

}  // namespace

ImageFile read_npy_images(const std::string& key, const std::filesystem::path& path,
                          const ImageOptions& options, Corpus& corpus) {
  std::filesystem::path label_path = path;
  label_path.replace_extension(".labels" + path.extension().string());
  const std::string name = escaped(path.native()), label_name = escaped(label_path.native());
  const std::vector<std::byte> image_file = read_corpus_bytes(key, path, corpus);
  const BinaryFile label_file =
      read_file(label_file_key(key), label_path,
                fmt::format("save the labels beside the images, with numpy.save(\"{}\", labels)",
                            escaped(label_path.filename().native())),
                corpus);
  const NpyArray images = parse_array(image_file, name);
  const NpyArray labels = parse_array(label_file.bytes, label_name);
  if (!visit_numbers(images.header.type, [](const auto&) {})) {
    refuse(name,
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
