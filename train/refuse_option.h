#pragma once

#include <string>
#include <string_view>

#include "train/config/error.h"

namespace tapestry {

/// throws  ConfigError: an option that was understood but does not go with the model or the data.
[[noreturn]] inline void refuse_option(std::string_view option, const std::string& message,
                                       const std::string& hint) {
  throw ConfigError({{.place = {.file = "command line: " + std::string(option)},
                      .message = message,
                      .hint = hint}});
}

}  // namespace tapestry
