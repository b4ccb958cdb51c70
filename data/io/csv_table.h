// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

/// The numbers of a CSV file.
struct CsvTable {
  std::size_t rows = 0;        ///< lines with values, at least 1
  std::size_t columns = 0;     ///< values per line, at least 1
  std::vector<double> values;  ///< row-major
};

/// Options of read_csv. The member initializers are the defaults.
struct CsvOptions {
  bool header = false;  ///< whether the first line has the names of the columns and is skipped
};

/// Reads a CSV file of numbers, as numpy.loadtxt(path, delimiter=","). Empty lines are skipped.
///
///     const CsvTable table = read_csv("measurements.csv", {.header = true});
///     const Tensor x = Tensor::from({table.rows, table.columns}, table.values);
///
/// throws  DataError, with the line, for a field that is not a finite number and for a line with
///         another number of fields than the first; if there are no numbers; and if the file cannot
///         be read or is not a text.
CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

/// The fields of a line of a CSV file (RFC 4180): separated by commas, without the spaces and tabs
/// around them. A field in double quotes may contain commas, and a double quote as "". nullopt if a
/// quote is not closed; a field does not continue on the next line.
std::optional<std::vector<std::string>> split_csv_line(std::string_view line);

}  // namespace tapestry
