#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/profiler.h"

namespace tapestry {

/// A part of the time of a run with its own parts, for a flame graph.
struct ProfilePart {
  std::string name;                  ///< "training steps", "backward", "linear"
  double seconds = 0.0;              ///< of the part with everything in it
  std::vector<ProfilePart> parts{};  ///< longest first
};

/// The rows of a table that to_string(const Profile&) has written, without floating-point
/// operations and bytes. Lines of another form are no rows.
std::vector<ProfileRow> parse_profile_rows(std::string_view table);

/// The time of a run by what it does:
///
///     run
///       training steps: forward, backward and update, each by operation
///       validation and reports: inference by operation, and the rest
///       saving
///       everything else
///
/// Operations without a tape are those of validations and reports.
ProfilePart profile_tree(const std::vector<ProfileRow>& rows);

/// The part for the page of a report: `name`, `seconds` and `parts`.
nlohmann::ordered_json profile_json(const ProfilePart& part);

}  // namespace tapestry
