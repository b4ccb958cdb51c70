#include "train/checkpoint/run_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <thread>
#include <type_traits>

#include "data/io/file.h"
#include "data/io/utf8.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config/fields.h"
#include "train/error.h"
#include "train/storage/checkpoint_file.h"

namespace tapestry {
namespace {

constexpr std::string_view line_start = "# run id: ";
constexpr std::size_t id_digits = 16;

bool is_run_id(std::string_view text) {
  return text.size() == id_digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

/// The lines `key: value` of the config that identify a run.
std::string identifying_lines(const Config& config) {
  std::string lines;
  for_each_field(config, [&](const Field& field, const FieldValue& value, const Domain& domain) {
    const bool kept = field.rule.stored && field.rule.change != ChangeRule::free;
    if (kept && !domain.is_file()) {
      lines += fmt::format("{}: {}\n", field.path(), domain.print(value));
    }
  });
  return lines;
}

void add(Xxh3& digest, const Parameters& parameters) {
  for (const NamedTensor& parameter : parameters.list()) {
    digest.add(parameter.name.data(), parameter.name.size());
    dispatch(parameter.tensor.dtype(), [&]<class T>() {
      const auto values = parameter.tensor.template values<T>();
      digest.add(values.data(), values.size_bytes());
    });
  }
}

/// Refuses a checkpoint that does not belong to the run.
///
/// path    of the checkpoint, which is named after `step`
/// run_id  of the run, if known
void require_of_run(const Snapshot& snapshot, const std::filesystem::path& path, std::uint64_t step,
                    const std::optional<std::string>& run_id) {
  if (const std::uint64_t found = saved_step(snapshot); found != step) {
    throw UnusableCheckpoint(fmt::format("{}: found the checkpoint of step {}, expected step {}, "
                                         "after which the file is named",
                                         escaped(path.string()), found, step),
                             "give the file its original name");
  }
  const std::string found = saved_run_id(snapshot);
  if (!run_id || found.empty() || found == *run_id) return;
  throw UnusableCheckpoint(
      fmt::format("{}: found a checkpoint of the run {}, expected one of the run {}, as "
                  "config.yaml of the run directory says",
                  escaped(path.string()), found, *run_id),
      "move the checkpoint back to the directory of its run");
}

}  // namespace

std::string make_run_id(const Config& config, const Corpus& corpus, const Model* pretrained) {
  Xxh3 digest;
  const std::string lines = identifying_lines(config);
  digest.add(lines.data(), lines.size());
  digest.add(&corpus.fingerprint, sizeof corpus.fingerprint);
  if (pretrained != nullptr) add(digest, pretrained->parameters);
  return fmt::format("{:016x}", digest.value());
}

std::string run_id_line(std::string_view run_id) {
  return fmt::format("{}{}\n", line_start, run_id);
}

std::optional<std::string> read_run_id(const std::filesystem::path& config_file) try {
  const OpenFile file(config_file,
                      {.expected = "a config file", .special_hint = "", .too_large_hint = ""});
  std::string line(line_start.size() + id_digits + 1, '\0');
  line.resize(file.read_at(0, std::as_writable_bytes(std::span(line))));
  if (!line.starts_with(line_start) || !line.ends_with('\n')) return std::nullopt;
  std::string id = line.substr(line_start.size(), id_digits);
  return is_run_id(id) ? std::optional(std::move(id)) : std::nullopt;
} catch (const FileError&) {
  return std::nullopt;
}

std::optional<std::string> recorded_run_id(const RunDirectory& directory) {
  return read_run_id(directory.path() / "config.yaml");
}

std::optional<NewestCheckpoint> read_newest_of_run(const RunDirectory& directory) {
  const auto run_id = recorded_run_id(directory);
  return directory.read_newest([&](std::uint64_t step, const Snapshot& snapshot) {
    require_of_run(snapshot, directory.checkpoint_path(step), step, run_id);
  });
}

Snapshot read_checkpoint_of_run(const RunDirectory& directory, std::uint64_t step) {
  const auto path = directory.checkpoint_path(step);
  Snapshot snapshot = read_checkpoint(path);
  require_of_run(snapshot, path, step, recorded_run_id(directory));
  return snapshot;
}

Snapshot await_checkpoint_of_run(const RunDirectory& directory, std::uint64_t step,
                                 std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    try {
      return read_checkpoint_of_run(directory, step);
    } catch (const UnusableCheckpoint&) {
      if (std::chrono::steady_clock::now() >= end) throw;
    }
    std::this_thread::sleep_for(std::min(timeout, std::chrono::milliseconds(200)));
  }
}

}  // namespace tapestry
