#pragma once

#include "train/storage/run_directory.h"

/// What has to hold before a new run begins in a directory: it replaces nothing that is there.
namespace tapestry {

/// throws  ConfigError if the directory has checkpoints.
void refuse_to_replace_run(const RunDirectory& directory);

/// throws  ConfigError if the directory is not a run's, having no folder of checkpoints, and holds
/// a
///         file of a name that a run writes.
void refuse_to_replace_files(const RunDirectory& directory);

/// Renames a directory that has checkpoints to PATH.old-1, or the first number that is free.
/// throws  RunDirectoryInUse if a process is at work in it; OutputError.
void move_aside(const RunDirectory& directory);

}  // namespace tapestry
