#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <hdf5.h>

namespace tapestry::test {

/// A trick that a hostile HDF5 file can play on its reader.
struct Attack {
  std::string name;
  std::function<void(hid_t file)> fill;
  std::string refusal;  ///< what the reader says, such as verify_checkpoint, without the path
};

/// One attack for each trick. Those that make a reader open another file name `other_file`, and a
/// folder of plug-ins is never named: HDF5_PLUGIN_PATH is for that.
std::vector<Attack> attacks(const std::string& other_file);

/// The tricks that reach out of a file, on the array `images` of a file of images.
std::vector<Attack> image_attacks(const std::string& other_file);

/// A group with this many links, which takes a reader that follows all of them hundreds of
/// megabytes.
Attack many_links(std::size_t count);

/// The attack as an HDF5 file and nothing else.
std::vector<std::byte> raw_file(const Attack& attack);

/// The attack behind an envelope and a table of contents that are right in themselves: they tell of
/// one array `x`, of 8 bytes, and its digest.
std::vector<std::byte> wrapped_file(const Attack& attack);

/// Gives a file whose payload was altered or cut an envelope that is right again, with the layout
/// that the envelope of `original` tells of.
void reseal(std::vector<std::byte>& file, const std::vector<std::byte>& original);

}  // namespace tapestry::test
