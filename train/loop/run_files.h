#pragma once

#include <cstdint>
#include <filesystem>

#include "train/config/config.h"

namespace tapestry {

/// The number of files and folders that a run creates in its directory until its first checkpoint
/// is saved, besides the checkpoint, and that are not there yet: its logs and metrics.csv. They are
/// 3 for a new run with default options, so that its first save needs 4 inodes.
///
/// The temporary files of metrics.csv and of the checkpoint exist one after the other, and are
/// renamed: they need no further inode. What only some runs write, or later (reports,
/// more checkpoints), is not counted, so that no run is refused that can be saved.
std::uint64_t missing_files(const std::filesystem::path& run_directory,
                            const TrainOptions& options);

}  // namespace tapestry
