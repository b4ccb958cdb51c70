#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/parameters.h"
#include "train/recording/step_log.h"

namespace tapestry {

/// The name of the file in a run directory.
inline constexpr const char* digest_file_name = "digests.csv";

/// The digest of the values of a tensor, in row-major order: the low 32 bits of XXH3 of their
/// bytes.
std::uint32_t digest_of_values(std::span<const std::byte> bytes);

/// The names of the columns of digests: those of the parameters, then of the buffers.
std::vector<std::string> digest_names(const Parameters& parameters);

/// Sets `digests` to the digests of all parameters, then of all buffers, in the order of
/// Parameters.
void compute_digests(const Parameters& parameters, std::vector<std::uint32_t>& digests);

/// The digests.csv of a run: rows with the digests of all tensors after a step, see StepLog. With
/// them the first step and tensor are found in which two runs differ, exactly if each step has a
/// row (train.digest_every). The columns are `step` and the names of the parameters and buffers; a
/// digest has 8 hexadecimal digits.
class DigestLog {
 public:
  /// Continues the file `path`, or creates it, without rows of steps after `step`.
  ///
  /// parameters  of the model; must outlive the object
  DigestLog(std::filesystem::path path, const Parameters& parameters, std::uint64_t step);
  // log_ refers to heading_.
  DigestLog(const DigestLog&) = delete;
  DigestLog& operator=(const DigestLog&) = delete;

  /// Appends the row of a step, of the present values.
  void add(std::uint64_t step);

  /// Removes the rows of later steps, and everything from the first invalid line on.
  void drop_after(std::uint64_t step) { log_.drop_after(step); }

  /// Why the file cannot be written; it is not written again then.
  const std::optional<std::string>& problem() const { return log_.problem(); }

 private:
  const Parameters& parameters_;
  std::string heading_;
  StepLog log_;
  std::vector<std::uint32_t> digests_;  ///< of the last row
  std::string row_;
};

/// The content of a digests.csv.
struct DigestTable {
  std::vector<std::string> names{};      ///< of the tensors
  std::vector<std::uint64_t> steps{};    ///< of the rows, each later than the one before
  std::vector<std::uint32_t> digests{};  ///< (steps, names)

  /// The digests of a row.
  std::span<const std::uint32_t> row(std::size_t index) const {
    return std::span(digests).subspan(index * names.size(), names.size());
  }
  /// The row of a step; nullopt if it was not recorded.
  std::optional<std::size_t> find(std::uint64_t step) const;
};

/// The rows in the untrusted text of a digests.csv, up to the first line that is not valid.
DigestTable parse_digests(std::string_view text);

/// The digests.csv of a run directory; without rows if there is none, and with a warning if it
/// cannot be read.
DigestTable read_digests(const std::filesystem::path& run);

/// The digests of two runs of models with the same tensors, compared at the steps that both have.
struct DigestComparison {
  std::uint64_t equal_step = 0;        ///< the last step with equal digests; 0: none
  std::uint64_t step = 0;              ///< the first step with other ones; 0: none
  std::vector<std::string> tensors{};  ///< that differ at this step, in the order of the model
};

/// nullopt if they have other tensors, or no step in common.
std::optional<DigestComparison> compare_digests(const DigestTable& a, const DigestTable& b);

}  // namespace tapestry
