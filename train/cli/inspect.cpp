#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "data/io/file.h"
#include "data/io/utf8.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/open_run.h"
#include "train/cli/command.h"
#include "train/error.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;  // writes values that are not finite as null

/// Mean and standard deviation.
struct Statistics {
  double mean, deviation;
};

Statistics statistics(const auto& values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0.0, squares = 0.0;
  for (const auto value : values) sum += static_cast<double>(value);
  const double mean = sum / count;
  for (const auto value : values) {
    squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
  }
  return {mean, std::sqrt(squares / count)};
}

/// The value of a single number, or mean and standard deviation of several floats; empty for other
/// arrays.
template <class T>
std::string summary(std::span<const T> values) {
  if (values.size() == 1) return fmt::format("{}", values.front());
  if constexpr (std::is_floating_point_v<T>) {
    if (values.empty()) return "";
    const auto [mean, deviation] = statistics(values);
    return fmt::format("mean {:+.3e}  deviation {:.3e}", mean, deviation);
  }
  return "";
}

/// The same as JSON: `value`, or `mean` and `deviation`.
template <class T>
void add_summary(Json& json, std::span<const T> values) {
  if (values.size() == 1) {
    json["value"] = values.front();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (values.empty()) return;
    const auto [mean, deviation] = statistics(values);
    json["mean"] = mean;
    json["deviation"] = deviation;
  }
}

/// Calls visit with the values of an array of numbers.
void visit_numbers(const Snapshot& snapshot, const std::string& path, const auto& visit) {
  switch (snapshot.at(path).type) {
    case ElementType::float32:
      return visit(snapshot.get<float>(path));
    case ElementType::float64:
      return visit(snapshot.get<double>(path));
    case ElementType::uint64:
      return visit(snapshot.get<std::uint64_t>(path));
    default:
      return;
  }
}

std::string summary(const Snapshot& snapshot, const std::string& path) {
  std::string text;
  visit_numbers(snapshot, path, [&](const auto& values) { text = summary(values); });
  return text;
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

void print_text(const OpenedCheckpoint& opened) {
  const auto& [path, snapshot, choice] = opened;
  const std::string version = snapshot.get_text("program_version");
  const auto step = snapshot.get_scalar<std::uint64_t>("train/step");
  fmt::print("{}: step {}, {} arrays, {:.1f} MB, written by version {}\n", escaped(path.string()),
             step, snapshot.size(), static_cast<double>(snapshot.byte_size()) / 1e6, version);
  if (!choice.empty()) fmt::print("({})\n", choice);
  fmt::print("digest of all numbers: {:016x}\n", digest_of_numbers(snapshot));
  if (const std::string id = saved_run_id(snapshot); !id.empty()) {
    fmt::print("run id: {}\n", escaped(id));
  }
  if (const std::string saved = saved_arithmetic(snapshot); !saved.empty()) {
    fmt::print("computed with {}\n", saved);
  }
  fmt::print("\n");
  std::size_t width = 0;
  for (const auto& [name, array] : snapshot) width = std::max(width, name.size());
  for (const auto& [name, array] : snapshot) {
    fmt::print("{:<{}} {:<8} {:<16} {}\n", escaped(name), width, element_type_name(array.type),
               to_string(array.shape), summary(snapshot, name));
  }
  if (const std::string history = saved_history(snapshot); !history.empty()) {
    fmt::print("\nhistory:\n{}", escaped_lines(history));
  }
  fmt::print("\nconfig:\n{}", escaped_lines(snapshot.get_text("config")));
}

void print_json(const OpenedCheckpoint& opened) {
  const Snapshot& snapshot = opened.snapshot;
  Json arrays = Json::array();
  for (const auto& [name, array] : snapshot) {
    Json json = {{"name", name}, {"type", element_type_name(array.type)}, {"shape", array.shape}};
    visit_numbers(snapshot, name, [&](const auto& values) { add_summary(json, values); });
    arrays.push_back(std::move(json));
  }
  const Json json = {{"checkpoint", opened.path.string()},
                     {"choice", opened.choice},
                     {"step", snapshot.get_scalar<std::uint64_t>("train/step")},
                     {"program_version", snapshot.get_text("program_version")},
                     {"bytes", snapshot.byte_size()},
                     {"digest", fmt::format("{:016x}", digest_of_numbers(snapshot))},
                     {"run_id", saved_run_id(snapshot)},
                     {"arithmetic", saved_arithmetic(snapshot)},
                     {"history", saved_history(snapshot)},
                     {"config", snapshot.get_text("config")},
                     {"arrays", std::move(arrays)}};
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

struct Arguments {
  std::string run;  ///< a run directory or a checkpoint
  bool json = false;
};

int run(const Arguments& arguments) {
  (arguments.json ? print_json : print_text)(open_run(arguments.run));
  return static_cast<int>(ExitCode::done);
}

Action define(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  add_run(app, arguments->run);
  add_json(app, arguments->json);
  return [arguments] { return run(*arguments); };
}

}  // namespace

const Command inspect_command{
    .name = "inspect", .purpose = "List what a checkpoint holds", .define = define};

}  // namespace tapestry
