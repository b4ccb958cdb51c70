#include "train/storage/hdf5_attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "data/io/utf8.h"

namespace tapestry::hdf5 {
namespace {

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_text(ElementType type, const ArrayShape& shape, std::span<const std::byte> bytes) {
  if (type != ElementType::uint8 || shape.size() != 1 || bytes.size() > largest_text_attribute) {
    return false;
  }
  const std::string_view text = as_text(bytes);
  return text.find('\0') == text.npos && !find_invalid_utf8(text);
}

/// A string of fixed length for an array with axes, otherwise the type of the array.
Datatype value_type(ElementType type, const ArrayShape& shape, std::size_t size) {
  Datatype made(H5Tcopy(shape.empty() ? file_type(type) : H5T_C_S1), "describe an attribute");
  if (shape.empty()) return made;
  require(H5Tset_size(made.get(), size), "describe an attribute");
  require(H5Tset_strpad(made.get(), H5T_STR_NULLPAD), "describe an attribute");
  require(H5Tset_cset(made.get(), H5T_CSET_UTF8), "describe an attribute");
  return made;
}

void require_attribute(const Object& root, const ArrayEntry& entry,
                       std::span<const std::byte> array) {
  const auto expected = attribute_value(array);
  const Attribute attribute(H5Aopen(root.get(), entry.path.c_str(), H5P_DEFAULT),
                            "open the attribute", entry.path);
  const Datatype type(H5Aget_type(attribute.get()), "look at an attribute");
  const Dataspace space(H5Aget_space(attribute.get()), "look at an attribute");
  const Datatype expected_type = value_type(entry.type, entry.shape, expected.size());
  if (H5Sget_simple_extent_type(space.get()) != H5S_SCALAR ||
      require(H5Tequal(type.get(), expected_type.get()), "compare types") == 0) {
    refuse(entry.path, "an attribute of another type", "the type of its array");
  }
  std::vector<std::byte> value(expected.size());
  require(H5Aread(attribute.get(), expected_type.get(), value.data()), "read the attribute",
          entry.path);
  if (value != expected) refuse(entry.path, "an attribute of another value", "that of its array");
}

Object open_root(const File& file) {
  return {H5Oopen(file.get(), "/", H5P_DEFAULT), "open the root group"};
}

}  // namespace

bool has_attribute(ElementType type, const ArrayShape& shape, std::span<const std::byte> bytes) {
  return shape.empty() || is_text(type, shape, bytes);
}

std::vector<std::byte> attribute_value(std::span<const std::byte> array) {
  if (array.empty()) return {std::byte{0}};
  return {array.begin(), array.end()};
}

std::size_t count_attributes(const File& file) {
  const Object root = open_root(file);
  H5O_info_t info{};
  require(H5Oget_info2(root.get(), &info, H5O_INFO_NUM_ATTRS), "look at the root group");
  return info.num_attrs;
}

void require_attributes(const File& file, const std::vector<ArrayEntry>& entries,
                        std::span<const std::byte> bytes) {
  const Object root = open_root(file);
  std::size_t expected = 0;
  for (const ArrayEntry& entry : entries) {
    if (entry.offset > bytes.size() || entry.size > bytes.size() - entry.offset) {
      refuse(entry.path, "a place outside of the file", "one inside");
    }
    const auto array = bytes.subspan(entry.offset, entry.size);
    if (!has_attribute(entry.type, entry.shape, array)) continue;
    ++expected;
    require_attribute(root, entry, array);
  }
  if (const std::size_t found = count_attributes(file); found != expected) {
    refuse("/", fmt::format("{} attributes", found), fmt::to_string(expected));
  }
}

}  // namespace tapestry::hdf5
