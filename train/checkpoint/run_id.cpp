// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/run_id.h"

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "autograd/tensor.h"
#include "data/io/file.h"
#include "train/config/fields.h"

namespace tapestry {
namespace {

constexpr std::string_view line_start = "# run id: ";
constexpr std::size_t id_digits = 16;

bool is_run_id(std::string_view text) {
  return text.size() == id_digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

/// The keys that identify a run, as lines `key: value`.
std::string identifying_lines(const Config& config) {
  std::string lines;
  for (const Field& field : fields_of(config)) {
    const bool kept = field.policy.stored && field.policy.change != ChangeRule::free;
    if (kept && !field.domain.is_file()) {
      lines += fmt::format("{}: {}\n", field.path(), field.printed());
    }
  }
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

}  // namespace tapestry
