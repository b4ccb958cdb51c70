#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "data/corpora/image_arrays.h"

namespace tapestry {

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

/// An array of a file whose bytes are kept elsewhere.
struct NpyArray {
  NpyHeader header;
  std::span<const std::byte> data;  ///< exactly the elements of the header
};

/// "float32", "text", ...
std::string type_name(const NpyType& type);

/// Reads a file as numpy.save() writes it: the format of numpy.lib.format, versions 1.0, 2.0
/// and 3.0. Nothing of it need be trusted; no memory is taken for what the header claims.
///
/// name    of the file in errors, escaped
/// throws  DataError if that is no such file, if it holds structures or Python objects, or other
///         bytes than those that its type and shape need
NpyArray parse_npy(std::span<const std::byte> file, const std::string& name);

}  // namespace tapestry
