#include "train/report/profile_tree.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "data/io/number.h"
#include "train/recording/json_values.h"

namespace tapestry {
namespace {

std::optional<Phase> parse_phase(std::string_view text) {
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::inference, Phase::other}) {
    if (text == name(phase)) return phase;
  }
  return std::nullopt;
}

/// Removes the last word of a line and returns it; empty if there is none.
std::string_view take_last_word(std::string_view& line) {
  const auto end = line.find_last_not_of(' ');
  line = line.substr(0, end == line.npos ? 0 : end + 1);
  const auto blank = line.find_last_of(' ');
  const std::string_view word = line.substr(blank == line.npos ? 0 : blank + 1);
  line.remove_suffix(word.size());
  return word;
}

/// Columns: name, phase, calls, seconds, share, %, GFLOP/s, GB, GB/s. The name may have blanks.
std::optional<ProfileRow> parse_row(std::string_view line) {
  std::array<std::string_view, 8> columns;
  for (auto column = columns.rbegin(); column != columns.rend(); ++column) {
    *column = take_last_word(line);
  }
  const auto [phase_name, calls, seconds, share, percent, flops, bytes, speed] = columns;
  const auto phase = parse_phase(phase_name);
  const auto time = parse_number<double>(seconds);
  const auto end = line.find_last_not_of(' ');
  if (!phase || !time || percent != "%" || end == line.npos) return std::nullopt;
  return ProfileRow{.name = std::string(line.substr(0, end + 1)),
                    .phase = *phase,
                    .calls = static_cast<std::uint64_t>(parse_number<double>(calls).value_or(0.0)),
                    .seconds = *time,
                    .flops = 0.0,
                    .bytes = 0.0};
}

/// The path of a row in the tree.
std::vector<std::string> tree_path(const ProfileRow& row) {
  switch (row.phase) {
    case Phase::forward:
    case Phase::backward:
      return {"training steps", name(row.phase), row.name};
    case Phase::inference:
      return {"validation and reports", "inference", row.name};
    case Phase::other:
      break;
  }
  constexpr std::array of_steps = {"batch preparation", "gradient norm", "optimizer step"};
  constexpr std::array of_validations = {"validation and decoding", "recording", "report"};
  const auto among = [&](const auto& names) {
    return std::ranges::find(names, row.name) != names.end();
  };
  if (among(of_steps)) return {"training steps", row.name};
  if (among(of_validations)) return {"validation and reports", row.name};
  return {row.name};
}

void add(ProfilePart& part, const std::vector<std::string>& path, double seconds) {
  ProfilePart* at = &part;
  at->seconds += seconds;
  for (const std::string& name : path) {
    auto found = std::ranges::find(at->parts, name, &ProfilePart::name);
    if (found == at->parts.end()) found = at->parts.insert(found, {.name = name});
    at = &*found;
    at->seconds += seconds;
  }
}

void sort_longest_first(ProfilePart& part) {
  std::ranges::stable_sort(part.parts, std::greater{}, &ProfilePart::seconds);
  for (ProfilePart& inner : part.parts) sort_longest_first(inner);
}

}  // namespace

std::vector<ProfileRow> parse_profile_rows(std::string_view table) {
  std::vector<ProfileRow> rows;
  while (!table.empty()) {
    const std::size_t end = std::min(table.find('\n'), table.size());
    if (auto row = parse_row(table.substr(0, end))) rows.push_back(std::move(*row));
    table.remove_prefix(std::min(end + 1, table.size()));
  }
  return rows;
}

ProfilePart profile_tree(const std::vector<ProfileRow>& rows) {
  ProfilePart run{.name = "run"};
  for (const ProfileRow& row : rows) add(run, tree_path(row), row.seconds);
  sort_longest_first(run);
  return run;
}

nlohmann::ordered_json profile_json(const ProfilePart& part) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (const ProfilePart& inner : part.parts) parts.push_back(profile_json(inner));
  return {{"name", part.name}, {"seconds", json_number(part.seconds)}, {"parts", std::move(parts)}};
}

}  // namespace tapestry
