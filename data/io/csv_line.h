#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

/// The fields of a line of a CSV file (RFC 4180): separated by commas, without the spaces and tabs
/// around them. A field in double quotes may contain commas, and a double quote as "". nullopt if a
/// quote is not closed; a field does not continue on the next line.
std::optional<std::vector<std::string>> split_csv_line(std::string_view line);

}  // namespace tapestry
