#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/io/error.h"
#include "train/parallel/process_group.h"

namespace tapestry {

/// Something that has to be the same in all processes of a group.
struct EqualProperty {
  std::string what;  ///< a noun: "config"
  std::string text;  ///< compared byte by byte
  ExitCode code;     ///< of the error if it differs
};

/// Refuses processes that differ from rank 0. To be called by all of them, each with the same list
/// of properties, whose texts may differ.
///
/// throws  PeerFailure, in all processes, with the lowest rank that differs, its machine, the first
///         property that differs, and the first line of the text that differs.
void require_equal_processes(ProcessGroup& group, const std::vector<EqualProperty>& properties);
/// The same for properties that are computed in all processes; without a call in one process alone.
/// throws  also what `properties` throws.
void require_equal_processes(ProcessGroup& group,
                             const std::function<std::vector<EqualProperty>()>& properties);

}  // namespace tapestry
