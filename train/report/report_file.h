#pragma once

#include <cstddef>
#include <filesystem>

#include "train/checkpoint/run_directory.h"
#include "train/report/report_data.h"

namespace tapestry {

/// The name of the report of a run in its directory.
inline constexpr const char* report_file_name = "report.html";

/// Writes the page of a report atomically; returns its bytes.
///
/// throws  OutputError
std::size_t write_report(const ReportData& data, const std::filesystem::path& path);

/// Writes the report of a run that is being trained into its directory, as `tapestry report` does.
/// Uses the checkpoints that have been saved.
///
/// throws  OutputError, CheckpointError, ConfigError
void write_report(const RunDirectory& directory, const RunInProgress& run);

}  // namespace tapestry
