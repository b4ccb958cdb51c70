// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdio>

namespace tapestry::kernels {

/// Prints the value of an environment variable on standard error. Bytes that a terminal could
/// interpret are printed as \x1B. Does not allocate.
inline void print_escaped(const char* value) {
  for (; *value != '\0'; ++value) {
    const auto byte = static_cast<unsigned char>(*value);
    const bool is_printable = byte >= 0x20 && byte < 0x7F;
    std::fprintf(stderr, is_printable ? "%c" : "\\x%02X", byte);
  }
}

}  // namespace tapestry::kernels
