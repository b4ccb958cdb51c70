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
  std::size_t rows = 0;        ///< number of lines with values, at least 1
  std::size_t columns = 0;     ///< number of values per line, at least 1
  std::vector<double> values;  ///< row-major
};

/// Options of read_csv. The member initializers are the defaults.
struct CsvOptions {
  bool header = false;  ///< whether the first line has column names and is skipped
};

/// Reads a CSV file of numbers, like numpy.loadtxt(path, delimiter=","). Empty lines are skipped.
///
///     const CsvTable table = read_csv("measurements.csv", {.header = true});
///     const Tensor x = Tensor::from({table.rows, table.columns}, table.values);
///
/// throws  DataError, naming the line, if a field is not a finite number or a line does not have as
///         many fields as the first line; also if the file has no numbers, cannot be read or is not
///         a text file.
CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

/// Splits a line of a CSV file (RFC 4180) at its commas. Removes spaces and tabs around fields. A
/// field in double quotes may contain commas, and "" for a double quote. Returns nullopt if a quote
/// is not closed: fields cannot span lines.
std::optional<std::vector<std::string>> split_csv_line(std::string_view line);

}  // namespace tapestry
