#include <fmt/format.h>

#include <cmath>

#include "train/commands/commands.h"
#include "train/commands/open_run.h"
#include "train/exit_code.h"

namespace tapestry {
namespace {

/// Mean and standard deviation of an array of floats; empty for other types.
std::string statistics(const Snapshot& snapshot, const std::string& path, ElementType type) {
  const auto describe = [](const auto& values) -> std::string {
    if (values.empty()) return "";
    double sum = 0.0, squares = 0.0;
    for (const auto value : values) sum += static_cast<double>(value);
    const double mean = sum / static_cast<double>(values.size());
    for (const auto value : values) {
      squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
    }
    return fmt::format("mean {:+.3e}  deviation {:.3e}", mean,
                       std::sqrt(squares / static_cast<double>(values.size())));
  };
  if (type == ElementType::float32) return describe(snapshot.get<float>(path));
  if (type == ElementType::float64) return describe(snapshot.get<double>(path));
  return "";
}

}  // namespace

int inspect_command(const std::string& run) {
  const auto [path, snapshot] = open_run(run);
  fmt::print("{}: step {}, {} arrays, {:.1f} MB, written by version {}\n\n", path.string(),
             snapshot.get_scalar<std::uint64_t>("train/step"), snapshot.size(),
             static_cast<double>(snapshot.byte_size()) / 1e6, snapshot.get_text("program_version"));
  for (const auto& [name, array] : snapshot) {
    fmt::print("{:<64} {:<8} {:<16} {}\n", name, element_type_name(array.type),
               to_string(array.shape), statistics(snapshot, name, array.type));
  }
  fmt::print("\nconfig:\n{}", snapshot.get_text("config"));
  return static_cast<int>(ExitCode::done);
}

}  // namespace tapestry
