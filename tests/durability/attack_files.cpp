#include "tests/durability/attack_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "tests/train/hdf5_files.h"
#include "train/storage/checkpoint_file.h"
#include "train/storage/checkpoint_table.h"

namespace tapestry::test {
namespace {

using hdf5::add_digest;
using hdf5::add_good_array;
using hdf5::create;
using hdf5::Dataset;
using hdf5::dataset_options;
using hdf5::Dataspace;
using hdf5::Datatype;
using hdf5::Object;
using hdf5::PropertyList;
using hdf5::require;

constexpr std::size_t hdf5_offset = 1024;

/// Of a filter that HDF5 would look for among its plug-ins: Zstandard.
constexpr H5Z_filter_t plugin_filter = 32015;

const std::string not_contiguous =
    "x: found chunked, compact or virtual storage, expected contiguous storage";
const std::string other_type =
    "x: found another type, expected float32, float64, int32, int64, uint64 or uint8";
const std::string several_links = "found several links, expected one";
const std::string no_hard_link = "x: found a soft or external link, expected a hard link";

Attack dataset(const char* name, hid_t type, std::vector<hsize_t> shape, std::string refusal) {
  return {name, [=](hid_t file) { add_digest(create(file, "x", type, shape)); },
          std::move(refusal)};
}

void external_storage(hid_t file, const std::string& other_file, const char* name = "x") {
  const PropertyList options = dataset_options();
  require(H5Pset_external(options.get(), other_file.c_str(), 0, 8), "set external storage");
  add_digest(create(file, name, H5T_STD_U8LE, {8}, options));
}

void virtual_dataset(hid_t file, const std::string& other_file, const char* name = "x") {
  const hsize_t size = 8;
  const Dataspace space(H5Screate_simple(1, &size, nullptr), "create");
  const PropertyList options = dataset_options();
  require(H5Pset_virtual(options.get(), space.get(), other_file.c_str(), "x", space.get()),
          "map a virtual dataset");
  add_digest(create(file, name, H5T_STD_U8LE, {8}, options));
}

void link_outside(hid_t file, const std::string& other_file, const char* name = "x") {
  require(H5Lcreate_external(other_file.c_str(), "/x", file, name, H5P_DEFAULT, H5P_DEFAULT),
          "make an external link");
}

void soft_link(hid_t file, const char* target) {
  require(H5Lcreate_soft(target, file, "x", H5P_DEFAULT, H5P_DEFAULT), "make a soft link");
}

void hard_link(hid_t file, const char* target, hid_t group, const char* name) {
  require(H5Lcreate_hard(file, target, group, name, H5P_DEFAULT, H5P_DEFAULT), "make a hard link");
}

Object make_group(hid_t file, const char* name) {
  return {H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "make a group"};
}

void chunked(hid_t file, std::optional<H5Z_filter_t> filter, const char* name = "x") {
  const PropertyList options = dataset_options();
  const hsize_t chunk = 8;
  require(H5Pset_chunk(options.get(), 1, &chunk), "set chunks");
  if (filter) {
    require(H5Pset_filter(options.get(), *filter, H5Z_FLAG_OPTIONAL, 0, nullptr), "set a filter");
  }
  add_digest(create(file, name, H5T_STD_U8LE, {8}, options));
}

void compact(hid_t file) {
  const PropertyList options = dataset_options();
  require(H5Pset_layout(options.get(), H5D_COMPACT), "make a dataset compact");
  add_digest(create(file, "x", H5T_STD_U8LE, {8}, options));
}

void variable_length(hid_t file) {
  const Datatype type(H5Tvlen_create(H5T_STD_U8LE), "create");
  add_digest(create(file, "x", type.get(), {8}));
}

void variable_text(hid_t file) {
  const Datatype type(H5Tcopy(H5T_C_S1), "copy");
  require(H5Tset_size(type.get(), H5T_VARIABLE), "set a size");
  add_digest(create(file, "x", type.get(), {8}));
}

void compound(hid_t file) {
  const Datatype type(H5Tcreate(H5T_COMPOUND, 8), "create");
  require(H5Tinsert(type.get(), "a", 0, H5T_STD_U64LE), "add a field");
  add_digest(create(file, "x", type.get(), {1}));
}

void named_type(hid_t file) {
  const Datatype type(H5Tcopy(H5T_STD_I32LE), "copy");
  require(H5Tcommit2(file, "x", type.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "name a type");
}

void deep_groups(hid_t file) {
  std::string path;
  for (int depth = 0; depth < 1000; ++depth) {
    path += "/x";
    make_group(file, path.c_str());
  }
}

std::vector<Attack> links(const std::string& other_file) {
  return {
      {"external link", [=](hid_t file) { link_outside(file, other_file); }, no_hard_link},
      {"soft link", [](hid_t file) { soft_link(file, "/elsewhere"); }, no_hard_link},
      {"soft link to itself", [](hid_t file) { soft_link(file, "/x"); }, no_hard_link},
      {"two hard links to an array",
       [](hid_t file) {
         add_good_array(file, "x");
         hard_link(file, "x", file, "y");
       },
       "x: " + several_links},
      {"group that contains itself",
       [](hid_t file) { hard_link(file, "x", make_group(file, "x").get(), "again"); },
       "x: " + several_links},
      {"group that contains the root",
       [](hid_t file) { hard_link(file, "/", make_group(file, "x").get(), "root"); },
       ": " + several_links},
      {"a thousand nested groups", deep_groups,
       "x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x: found groups nested deeper, expected 16"},
  };
}

std::vector<Attack> storage(const std::string& other_file) {
  return {
      {"external storage", [=](hid_t file) { external_storage(file, other_file); },
       "x: found storage in other files, expected storage in this one"},
      {"virtual dataset", [=](hid_t file) { virtual_dataset(file, other_file); }, not_contiguous},
      {"chunks", [](hid_t file) { chunked(file, std::nullopt); }, not_contiguous},
      {"filter of a plug-in", [](hid_t file) { chunked(file, plugin_filter); }, not_contiguous},
      {"compact storage", compact, not_contiguous},
      dataset("array that was never written", H5T_STD_U8LE, {8},
              "x: found 0 bytes stored, expected those of uint8 (8)"),
      dataset("10^18 elements", H5T_STD_U8LE, {1'000'000'000'000'000'000},
              "x: found 0 bytes stored, expected those of uint8 (1000000000000000000)"),
      dataset("2^63 bytes", H5T_STD_U64LE, {std::uint64_t{1} << 32, std::uint64_t{1} << 28},
              "x: found 0 bytes stored, expected those of uint64 (4294967296, 268435456)"),
  };
}

std::vector<Attack> types() {
  return {
      dataset("numbers of 16 bits", H5T_STD_I16LE, {8}, other_type),
      dataset("big-endian numbers", H5T_IEEE_F32BE, {8}, other_type),
      dataset("text of fixed length", H5T_C_S1, {8}, other_type),
      dataset("references", H5T_STD_REF_OBJ, {8}, other_type),
      dataset("nine axes", H5T_STD_U8LE, std::vector<hsize_t>(9, 1),
              "x: found 9 axes, expected at most 8"),
      {"lists of variable length", variable_length, other_type},
      {"text of variable length", variable_text, other_type},
      {"compound type", compound, other_type},
      {"named type", named_type,
       "x: found an object of another kind, expected a group or a dataset"},
  };
}

}  // namespace

std::vector<Attack> attacks(const std::string& other_file) {
  std::vector<Attack> all;
  for (auto&& group : {links(other_file), storage(other_file), types()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

std::vector<Attack> image_attacks(const std::string& other_file) {
  std::vector<Attack> attacks{
      {"external link", [=](hid_t file) { link_outside(file, other_file, "images"); },
       "images: found a soft or external link, expected a dataset"},
      {"external storage", [=](hid_t file) { external_storage(file, other_file, "images"); },
       "images: found storage in other files, expected storage in this one"},
      {"virtual dataset", [=](hid_t file) { virtual_dataset(file, other_file, "images"); },
       "images: found virtual storage, expected storage in this file"},
      {"filter of a plug-in", [](hid_t file) { chunked(file, plugin_filter, "images"); },
       "images: found the filter 32015, expected gzip, shuffle or none"}};
  for (Attack& attack : attacks) {
    attack.fill = [images = attack.fill](hid_t file) {
      images(file);
      create(file, "labels", H5T_STD_I64LE, {8}, hdf5::allocated_early());
    };
  }
  return attacks;
}

Attack many_links(std::size_t count) {
  const auto fill = [count](hid_t file) {
    for (std::size_t i = 0; i < count; ++i) {
      require(H5Lcreate_soft("/x", file, fmt::format("{:x}", i).c_str(), H5P_DEFAULT, H5P_DEFAULT),
              "make a soft link");
    }
  };
  return {fmt::format("{} links", count), fill,
          "0: found a soft or external link, expected a hard link"};
}

std::vector<std::byte> raw_file(const Attack& attack) { return hdf5::file_with(attack.fill); }

std::vector<std::byte> wrapped_file(const Attack& attack) {
  std::vector<std::byte> file = hdf5::file_with(attack.fill, hdf5_offset);
  const auto data = std::span(file).subspan(hdf5_offset, 8);
  const auto table = encode_table({{.path = "x",
                                    .shape = {8},
                                    .offset = hdf5_offset,
                                    .size = data.size(),
                                    .digest = array_digest(data)}});
  std::ranges::copy(table, file.begin() + envelope_size);
  seal(file, {}, table.size(), hdf5_offset);
  return file;
}

void reseal(std::vector<std::byte>& file, const std::vector<std::byte>& original) {
  const Envelope envelope = open_envelope(original, original.size(), "");
  seal(file, {}, envelope.table_size, envelope.hdf5_offset);
}

}  // namespace tapestry::test
