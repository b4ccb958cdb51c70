// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

namespace tapestry::test {

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace tapestry::test
