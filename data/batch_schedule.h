// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/batch.h"
#include "data/corpus.h"

namespace tapestry {

/// The indices of the examples in a batch.
using BatchIndices = std::vector<std::size_t>;

/// The position of a run in its training data: the complete state of a BatchSchedule.
struct BatchPosition {
  std::uint64_t epoch = 0;  ///< number of the epoch, counted from 0
  std::size_t batch = 0;    ///< number of the batch in the epoch, counted from 0

  friend bool operator==(const BatchPosition&, const BatchPosition&) = default;
};

/// Selects how examples are combined into batches by their lengths.
enum class BatchLengths {
  alike,  ///< the examples of a batch have similar lengths, which reduces padding
  mixed   ///< each batch is a random sample, as batch norm requires
};

/// Limits the tokens of a batch, like --max-tokens of fairseq: rows times the largest
/// longest_side() of the examples is at most `max_tokens`. This product includes the padding of the
/// longer side.
struct BatchTokens {
  std::size_t max_tokens;        ///< limit per batch; at least the longest side of every example
  RowLayout layout = pair_rows;  ///< computes the row lengths of examples
};

/// Returns the lengths of an example in an epoch, for examples whose lengths vary between epochs,
/// for example because of subword regularization. Must be a pure function.
using LengthsInEpoch = std::function<ExampleLengths(std::size_t example, std::uint64_t epoch)>;

/// The total sizes of all batches of an epoch.
struct BatchStatistics {
  std::size_t batches = 0;      ///< number of batches
  std::size_t examples = 0;     ///< rows of all batches
  std::uint64_t tokens = 0;     ///< sum over batches of rows times longest side, see BatchTokens
  std::uint64_t positions = 0;  ///< positions of source and target rows, see target_positions()
  std::uint64_t padding = 0;    ///< number of these positions that are padding
};

/// Divides the training examples into batches. Every epoch contains every example exactly once, in
/// an order that is a pure function of (seed, epoch). With a batch size in examples:
///
///   1. all examples are shuffled;
///   2. for BatchLengths::alike, each chunk of 100 batches is sorted by length;
///   3. the examples are divided into batches; the last may be smaller;
///   4. the batches are shuffled.
///
/// With a batch size in tokens:
///
///   1. all examples are shuffled, then sorted by their longest side, from long to short;
///   2. among examples with the same longest side, each chunk of 8 batches is sorted by the
///      difference of the two sides;
///   3. the examples are divided into batches with the number of rows that BatchTokens allows; the
///      last batch may be smaller;
///   4. the batches are shuffled.
///
/// Every epoch has the same number of batches, with the same rows and longest sides; only the
/// examples differ.
///
/// With LengthsInEpoch, the steps above use the stored lengths. Each group of consecutive batches
/// (100, or fewer if batches are large) is then sorted by the lengths in the epoch, from long to
/// short, and divided again into batches with the same numbers of rows.
///
/// The batches of the last requested epoch are cached.
class BatchSchedule {
 public:
  /// Schedules `examples` in batches of `batch_size` examples. Stores only their lengths.
  ///
  /// in_epoch  ignored for BatchLengths::mixed
  /// throws    std::invalid_argument if there are no examples or batch_size is 0.
  BatchSchedule(const Examples& examples, std::size_t batch_size, std::uint64_t seed,
                BatchLengths batch_lengths = BatchLengths::alike, LengthsInEpoch in_epoch = {});

  /// Schedules `examples` in batches of at most `tokens.max_tokens` tokens, counted with the stored
  /// lengths. If an epoch makes examples longer, its batches may exceed the limit.
  ///
  /// throws  std::invalid_argument if there are no examples or one is longer than max_tokens.
  BatchSchedule(const Examples& examples, const BatchTokens& tokens, std::uint64_t seed,
                LengthsInEpoch in_epoch = {});

  /// Number of batches of every epoch.
  std::size_t batches_per_epoch() const;

  /// Returns the batches of an epoch according to the stored lengths, ignoring LengthsInEpoch. The
  /// result is valid until another epoch is requested.
  const std::vector<BatchIndices>& epoch(std::uint64_t epoch);

  /// Returns the sizes of the batches of an epoch. With LengthsInEpoch, they are estimated from the
  /// first batches.
  ///
  /// examples  the examples given to the constructor
  BatchStatistics measure(std::uint64_t epoch, const Examples& examples, const RowLayout& layout);

  /// Returns the batch at a position. It is valid until another position is requested.
  ///
  /// throws  std::out_of_range unless position.batch < batches_per_epoch().
  const BatchIndices& at(BatchPosition position);

  /// The next position: the next batch, or the first batch of the next epoch.
  BatchPosition after(BatchPosition position) const;

 private:
  struct Lengths {
    std::uint32_t source;
    std::uint32_t target;

    std::size_t longest_side() const { return std::max(source, target); }
    friend auto operator<=>(const Lengths&, const Lengths&) = default;
  };

  /// Consecutive batches of an epoch, divided again according to the lengths of their examples in
  /// this epoch.
  struct Group {
    BatchPosition begin;
    std::vector<BatchIndices> batches;
  };

  Lengths row_lengths(const ExampleLengths& example) const;
  std::vector<BatchIndices> plan(std::uint64_t epoch) const;
  void sort_chunks(std::vector<std::size_t>& order) const;
  void sort_by_longest_side(std::vector<std::size_t>& order,
                            const std::vector<Lengths>& lengths) const;
  std::size_t max_rows(std::size_t longest_side) const;
  std::size_t batches_per_group() const;
  Group group_by_lengths_in_epoch(BatchPosition begin);

  std::vector<Lengths> lengths_;
  std::optional<RowLayout> layout_;  ///< set if max_tokens_ applies
  std::size_t batch_size_ = 0;       ///< 0 if max_tokens_ applies
  std::size_t max_tokens_ = 0;       ///< 0 if batch_size_ applies
  std::uint64_t seed_;
  BatchLengths batch_lengths_ = BatchLengths::alike;
  std::size_t batches_per_epoch_ = 0;
  std::optional<std::uint64_t> planned_epoch_;
  std::vector<BatchIndices> plan_;
  LengthsInEpoch in_epoch_;        ///< if empty, lengths_ applies to all epochs
  std::vector<Lengths> in_group_;  ///< one per example; valid only for the examples of group_
  std::optional<Group> group_;
};

/// Returns the sizes of the given batches, according to the stored lengths of `examples`.
BatchStatistics measure_batches(const std::vector<BatchIndices>& batches, const Examples& examples,
                                const RowLayout& layout);

/// Batches for evaluation: every example once, in order of source length, target length and index;
/// the last batch may be smaller. Returns no batches if there are no examples.
///
/// throws  std::invalid_argument if batch_size is 0.
std::vector<BatchIndices> evaluation_batches(const Examples& examples, std::size_t batch_size);

/// Limits the rows of a batch and its positions including padding (rows times row length) on each
/// side. RowLayout defines the row lengths.
struct BatchLimit {
  std::size_t rows = 0;    ///< number of rows, >= 1
  std::size_t source = 0;  ///< positions in all source rows
  std::size_t target = 0;  ///< positions in all target rows

  friend bool operator==(const BatchLimit&, const BatchLimit&) = default;
};

/// Returns a limit that every batch of `batch_size` examples satisfies: the size of a full batch
/// that contains the longest source and the longest target. A full batch contains all examples if
/// there are fewer than `batch_size`.
BatchLimit full_batch_limit(const Examples& examples, std::size_t batch_size,
                            const RowLayout& layout);

/// Divides the examples with these indices, which must increase, into batches for evaluation that
/// satisfy `limit`. An example that exceeds the limit by itself gets a separate batch.
///
/// throws  std::invalid_argument if limit.rows is 0.
std::vector<BatchIndices> evaluation_batches(const Examples& examples, BatchIndices indices,
                                             const BatchLimit& limit, const RowLayout& layout);

/// Options of DataLoader. The member initializers are the defaults.
struct DataLoaderOptions {
  std::size_t batch_size = 32;  ///< examples per batch, >= 1
  bool shuffle = true;          ///< whether each epoch has a different order
  std::uint64_t seed = 1;       ///< seed of the order
  bool drop_last = false;       ///< whether to drop the last batch of an epoch if it is smaller
};

/// Divides the examples 0 to num_examples - 1 into batches:
///
///     const DataLoader loader(images.shape()[0], {.batch_size = 64});
///     for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
///       for (const auto& batch : loader.epoch(epoch)) {
///         const Tensor x = index_select(images, 0, Ids(batch));
///
/// Every epoch contains every example once, in an order that is a pure function of (seed, epoch).
/// The epoch and the number of finished batches are therefore enough to resume a run; the loader
/// has no state to save.
class DataLoader {
 public:
  /// Batches of the examples 0 to num_examples - 1.
  ///
  /// throws  std::invalid_argument if num_examples is 0 or exceeds the range of int32, or if
  ///         batch_size is 0.
  explicit DataLoader(std::size_t num_examples, const DataLoaderOptions& options = {});

  /// Number of batches of every epoch; 0 if drop_last removes the only batch.
  std::size_t batches_per_epoch() const;

  /// The batches of an epoch as example indices, starting with batch `first_batch`.
  std::vector<std::vector<std::int32_t>> epoch(std::uint64_t epoch,
                                               std::size_t first_batch = 0) const;

 private:
  std::size_t num_examples_;
  DataLoaderOptions options_;
};

}  // namespace tapestry
