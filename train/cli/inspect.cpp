#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "data/io/file.h"
#include "data/io/utf8.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/open_run.h"
#include "train/cli/command.h"
#include "train/error.h"

namespace tapestry {
namespace {

std::string statistics(const auto& values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0.0, squares = 0.0;
  for (const auto value : values) sum += static_cast<double>(value);
  const double mean = sum / count;
  for (const auto value : values) {
    squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
  }
  return fmt::format("mean {:+.3e}  deviation {:.3e}", mean, std::sqrt(squares / count));
}

/// The value of a single number, or mean and standard deviation of several floats; empty for other
/// arrays.
template <class T>
std::string summary(std::span<const T> values) {
  if (values.size() == 1) return fmt::format("{}", values.front());
  if constexpr (std::is_floating_point_v<T>) {
    if (!values.empty()) return statistics(values);
  }
  return "";
}

std::string summary(const Snapshot& snapshot, const std::string& path) {
  switch (snapshot.at(path).type) {
    case ElementType::float32:
      return summary(snapshot.get<float>(path));
    case ElementType::float64:
      return summary(snapshot.get<double>(path));
    case ElementType::uint64:
      return summary(snapshot.get<std::uint64_t>(path));
    default:
      return "";
  }
}

/// Of the names and bytes of all arrays but texts: equal for runs with bit-identical parameters,
/// optimizer state and counters, whatever their configs and programs.
std::uint64_t digest_of_numbers(const Snapshot& snapshot) {
  Xxh3 digest;
  for (const auto& [name, array] : snapshot) {
    if (array.type == ElementType::uint8) continue;
    digest.add(name.data(), name.size());
    digest.add(array.bytes.data(), array.bytes.size());
  }
  return digest.value();
}

int inspect(const std::string& run) {
  const auto [path, snapshot, choice] = open_run(run);
  const std::string version = snapshot.get_text("program_version");
  const auto step = snapshot.get_scalar<std::uint64_t>("train/step");
  fmt::print("{}: step {}, {} arrays, {:.1f} MB, written by version {}\n", escaped(path.string()),
             step, snapshot.size(), static_cast<double>(snapshot.byte_size()) / 1e6, version);
  if (!choice.empty()) fmt::print("({})\n", choice);
  fmt::print("digest of all numbers: {:016x}\n", digest_of_numbers(snapshot));
  if (const std::string saved = saved_arithmetic(snapshot); !saved.empty()) {
    fmt::print("computed with {}\n", saved);
  }
  fmt::print("\n");
  std::size_t width = 0;
  for (const auto& [name, array] : snapshot) width = std::max(width, name.size());
  for (const auto& [name, array] : snapshot) {
    fmt::print("{:<{}} {:<8} {:<16} {}\n", name, width, element_type_name(array.type),
               to_string(array.shape), summary(snapshot, name));
  }
  if (const std::string history = saved_history(snapshot); !history.empty()) {
    fmt::print("\nhistory:\n{}", escaped_lines(history));
  }
  fmt::print("\nconfig:\n{}", escaped_lines(snapshot.get_text("config")));
  return static_cast<int>(ExitCode::done);
}

Action define(CLI::App& app) {
  const auto run = std::make_shared<std::string>();
  add_run(app, *run);
  return [run] { return inspect(*run); };
}

}  // namespace

const Command inspect_command{
    .name = "inspect", .purpose = "List what a checkpoint holds", .define = define};

}  // namespace tapestry
