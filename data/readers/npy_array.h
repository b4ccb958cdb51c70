#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "data/io/array_shape.h"

namespace tapestry {

/// The type of the elements: "<f4" is {'f', 4, false}.
struct NpyType {
  char kind = 0;         ///< numpy's type code: b, i, u, f, S (bytes), U (UTF-32), ...
  std::size_t size = 0;  ///< bytes
  bool big_endian = false;
};

struct NpyHeader {
  NpyType type;
  bool fortran_order = false;  ///< the first axis varies fastest
  ArrayShape shape;
};

/// An array whose bytes are owned elsewhere.
struct NpyArray {
  NpyHeader header;
  std::span<const std::byte> data;  ///< exactly the bytes of the elements
};

/// "float32", "text", ...
std::string type_name(const NpyType& type);

/// Parses a file in the format of numpy.save() (numpy.lib.format, versions 1.0, 2.0 and 3.0). The
/// file may be untrusted; no memory is allocated for sizes in the header.
///
/// name    file name in errors, escaped
/// throws  DataError if the file is not in this format, has a structured type or Python objects, or
///         has a size that does not match its type and shape
NpyArray parse_npy(std::span<const std::byte> file, const std::string& name);

}  // namespace tapestry
