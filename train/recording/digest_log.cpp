#include "train/recording/digest_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>
#include <utility>

#include "autograd/kernels/parallel.h"
#include "data/io/file.h"
#include "data/io/utf8.h"
#include "train/checkpoint/run_directory.h"
#include "train/platform/standard_streams.h"

namespace tapestry {
namespace {

constexpr std::size_t digits = 8;  ///< of a digest

std::string make_heading(const Parameters& parameters) {
  return fmt::format("step,{}", fmt::join(digest_names(parameters), ","));
}

/// Reads the next number of a line and removes it, without the comma that ends it.
template <class T>
bool take_number(std::string_view& line, T& number, int base) {
  const char* end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data(), end, number, base);
  line.remove_prefix(static_cast<std::size_t>(stop - line.data()));
  return error == std::errc();
}

/// Reads a comma and a digest, and removes them.
bool take_digest(std::string_view& line, std::uint32_t& digest) {
  if (line.size() <= digits || line.front() != ',') return false;
  std::string_view field = line.substr(1, digits);
  line.remove_prefix(1 + digits);
  return take_number(field, digest, 16) && field.empty();
}

std::optional<std::uint64_t> parse_digest_step(std::string_view row) {
  std::uint64_t step = 0;
  if (!take_number(row, step, 10)) return std::nullopt;
  std::uint32_t digest = 0;
  while (!row.empty()) {
    if (!take_digest(row, digest)) return std::nullopt;
  }
  return step;
}

StepLines lines_with(const std::string& heading, const Parameters& parameters) {
  const std::size_t tensors = parameters.list().size() + parameters.buffers().size();
  constexpr std::size_t step_digits = 20;
  const std::size_t row = step_digits + tensors * (1 + digits);
  return {.heading = heading,
          .longest_line = std::max(heading.size(), row),
          .parse_step = parse_digest_step};
}

std::uint32_t compute_digest(const Tensor& tensor) {
  return dispatch(tensor.dtype(),
                  [&]<class T>() { return digest_of_values(std::as_bytes(tensor.values<T>())); });
}

}  // namespace

std::vector<std::string> digest_names(const Parameters& parameters) {
  std::vector<std::string> names;
  for (const auto* tensors : {&parameters.list(), &parameters.buffers()}) {
    for (const NamedTensor& each : *tensors) names.push_back(escaped(each.name));
  }
  return names;
}

std::uint32_t digest_of_values(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(xxh3(bytes));
}

void compute_digests(const Parameters& parameters, std::vector<std::uint32_t>& digests) {
  const auto& list = parameters.list();
  const auto& buffers = parameters.buffers();
  digests.resize(list.size() + buffers.size());
  kernels::parallel_for(digests.size(), [&](std::size_t i) {
    digests[i] = compute_digest(i < list.size() ? list[i].tensor : buffers[i - list.size()].tensor);
  });
}

DigestLog::DigestLog(std::filesystem::path path, const Parameters& parameters, std::uint64_t step)
    : parameters_(parameters),
      heading_(make_heading(parameters)),
      log_(std::move(path), lines_with(heading_, parameters), step) {}

void DigestLog::add(std::uint64_t step) {
  compute_digests(parameters_, digests_);
  row_.clear();
  fmt::format_to(std::back_inserter(row_), "{}", step);
  for (const std::uint32_t digest : digests_) {
    fmt::format_to(std::back_inserter(row_), ",{:08x}", digest);
  }
  row_ += '\n';
  log_.append(row_);
}

std::optional<std::size_t> DigestTable::find(std::uint64_t step) const {
  const auto found = std::ranges::lower_bound(steps, step);
  if (found == steps.end() || *found != step) return std::nullopt;
  return static_cast<std::size_t>(found - steps.begin());
}

DigestTable parse_digests(std::string_view text) {
  // A line without its end; what follows the last line feed is incomplete.
  const auto take_line = [&]() -> std::optional<std::string_view> {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    return line;
  };
  DigestTable table;
  const auto heading = take_line();
  if (!heading || !heading->starts_with("step,")) return table;
  for (std::size_t begin = 5, end = 0; end != heading->npos; begin = end + 1) {
    end = heading->find(',', begin);
    table.names.emplace_back(heading->substr(begin, end - begin));
  }
  while (const auto line = take_line()) {
    std::string_view rest = *line;
    std::uint64_t step = 0;
    const std::size_t rows = table.steps.size();
    bool is_valid = take_number(rest, step, 10) && (rows == 0 || step > table.steps.back());
    for (std::size_t i = 0; is_valid && i < table.names.size(); ++i) {
      is_valid = take_digest(rest, table.digests.emplace_back());
    }
    if (!is_valid || !rest.empty()) {
      table.digests.resize(rows * table.names.size());
      break;
    }
    table.steps.push_back(step);
  }
  return table;
}

DigestTable read_digests(const std::filesystem::path& run) try {
  return parse_digests(read_run_file(run / digest_file_name).value_or(""));
} catch (const FileError& error) {
  warn(error.what());
  return {};
}

std::optional<DigestComparison> compare_digests(const DigestTable& a, const DigestTable& b) {
  if (a.names != b.names) return std::nullopt;
  DigestComparison result;
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    const auto j = b.find(a.steps[i]);
    if (!j) continue;
    const auto x = a.row(i), y = b.row(*j);
    if (std::ranges::equal(x, y)) {
      result.equal_step = a.steps[i];
      continue;
    }
    result.step = a.steps[i];
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (x[k] != y[k]) result.tensors.push_back(a.names[k]);
    }
    return result;
  }
  if (result.equal_step == 0) return std::nullopt;
  return result;
}

}  // namespace tapestry
