#include "data/readers/npy_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "data/io/error.h"
#include "data/io/utf8.h"

namespace tapestry {
namespace {

constexpr const char* write_again = "write the file again with numpy.save()";

/// "uint8 of shape (60000, 28, 28)"
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
    while (!take("}")) {
      read_entry();
      if (!take(",") && !rest_.starts_with('}')) refuse_header();
    }
    skip_space();
    if (!rest_.empty() || !type_ || !fortran_order_ || !shape_) refuse_header();
    return {*type_, *fortran_order_, *shape_};
  }

 private:
  static constexpr std::size_t most_axes = 32;  // the limit of numpy 1

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

  /// Parses a byte order, a kind and a size; the unit of a time type is skipped.
  NpyType type() {
    skip_space();
    if (rest_.starts_with('[')) {
      refuse_data(name_, "an array of structures, expected one of numbers",
                  "save the images and the labels as arrays of their own");
    }
    std::string_view text = quoted();
    const bool whole = text.size() >= 2 && std::string_view("<>|=").find(text[0]) != text.npos &&
                       text[1] >= 'A' && text[1] <= 'z';
    if (!whole) refuse_header();
    NpyType type{.kind = text[1], .big_endian = text[0] == '>'};
    text.remove_prefix(2);
    if (type.kind == 'O') {
      refuse_data(
          name_, "an array of Python objects, expected one of numbers or text",
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
      take("L");  // written by Python 2
      if (shape.size() > most_axes || (!take(",") && !rest_.starts_with(')'))) refuse_header();
    }
    return shape;
  }

  /// Removes the digits at the front of a text and returns their value.
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
    refuse_data(name_,
                fmt::format("the header {}, expected {{'descr': ..., 'fortran_order': ..., "
                            "'shape': ...}}",
                            excerpt(text_)),
                write_again);
  }

  /// Small enough that four times the number does not overflow.
  static constexpr std::uint64_t largest_number = std::numeric_limits<std::uint64_t>::max() / 4;

  std::string_view text_, rest_;
  const std::string& name_;
  std::optional<NpyType> type_;
  std::optional<bool> fortran_order_;
  std::optional<ArrayShape> shape_;
};

}  // namespace

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

/// Parses the magic bytes, two version bytes, the length of the header (2 bytes in version 1, 4 in
/// later versions), the header and the elements.
NpyArray parse_npy(std::span<const std::byte> file, const std::string& name) {
  constexpr std::string_view magic = "\x93NUMPY";
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(magic) || text.size() < magic.size() + 2) {
    refuse_data(name, "no array of numpy, expected a file that numpy.save() wrote", write_again);
  }
  const int major = static_cast<unsigned char>(text[6]),
            minor = static_cast<unsigned char>(text[7]);
  if (major < 1 || major > 3 || minor != 0) {
    refuse_data(name,
                fmt::format("version {}.{} of the format, expected 1.0, 2.0 or 3.0", major, minor),
                write_again);
  }
  const std::size_t begin = major == 1 ? 10 : 12;
  std::uint32_t length = 0;
  if (file.size() >= begin) std::memcpy(&length, file.data() + 8, begin - 8);
  if (file.size() < begin || file.size() - begin < length) {
    refuse_data(name, "the end of the file inside its header, expected an array behind it",
                write_again);
  }
  const NpyArray array{.header = HeaderReader(text.substr(begin, length), name).read(),
                       .data = file.subspan(begin + length)};
  const auto expected = byte_count(array.header.shape, array.header.type.size);
  if (array.data.size() != expected) {
    refuse_data(name,
                fmt::format("{} bytes behind the header, expected {}: {}", array.data.size(),
                            expected ? fmt::to_string(*expected) : "more than 2^64",
                            describe(array.header)),
                write_again);
  }
  return array;
}

}  // namespace tapestry
