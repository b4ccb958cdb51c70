#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/corpus.h"

namespace tapestry {

/// The indices of the examples of a batch.
using BatchIndices = std::vector<std::size_t>;

/// The position of a run in its training data: the complete state of a BatchSchedule.
struct BatchPosition {
  std::uint64_t epoch = 0;  ///< from 0
  std::size_t batch = 0;    ///< in the epoch, from 0

  friend bool operator==(const BatchPosition&, const BatchPosition&) = default;
};

/// The lengths of the examples in a batch.
enum class BatchLengths {
  alike,  ///< similar lengths, which reduces padding
  mixed   ///< each batch is a random sample, as batch norm requires
};

/// Divides the training examples into batches. Every epoch has every example exactly once, in an
/// order that is a pure function of (seed, epoch):
///
///   1. all examples are shuffled;
///   2. for BatchLengths::alike, each chunk of 100 batches is sorted by length;
///   3. the examples are divided into batches; the last may be smaller;
///   4. the batches are shuffled.
///
/// The batches of the last requested epoch are cached.
class BatchSchedule {
 public:
  /// A schedule of `examples`, of which only the lengths are stored, in batches of `batch_size`
  /// examples.
  ///
  /// throws  std::invalid_argument if there are no examples or batch_size is 0.
  BatchSchedule(const std::vector<Example>& examples, std::size_t batch_size, std::uint64_t seed,
                BatchLengths batch_lengths = BatchLengths::alike);

  /// Number of batches of every epoch.
  std::size_t batches_per_epoch() const;

  /// The batches of an epoch; valid until another epoch is requested.
  const std::vector<BatchIndices>& epoch(std::uint64_t epoch);

  /// The batch at a position; valid until another epoch is requested.
  ///
  /// throws  std::out_of_range unless position.batch < batches_per_epoch().
  const BatchIndices& at(BatchPosition position);

  /// The next position: the next batch, or the first batch of the next epoch.
  BatchPosition after(BatchPosition position) const;

 private:
  struct Lengths {
    std::size_t source;
    std::size_t target;

    friend auto operator<=>(const Lengths&, const Lengths&) = default;
  };

  std::vector<BatchIndices> plan(std::uint64_t epoch) const;
  void sort_chunks(std::vector<std::size_t>& order) const;

  std::vector<Lengths> lengths_;
  std::size_t batch_size_;
  std::uint64_t seed_;
  BatchLengths batch_lengths_;
  std::optional<std::uint64_t> planned_epoch_;
  std::vector<BatchIndices> plan_;
};

/// Batches for evaluation: every example once, in order of increasing length and then index; the
/// last batch may be smaller. No examples give no batches.
///
/// throws  std::invalid_argument if batch_size is 0.
std::vector<BatchIndices> evaluation_batches(const std::vector<Example>& examples,
                                             std::size_t batch_size);

/// Options of DataLoader. The member initializers are the defaults.
struct DataLoaderOptions {
  std::size_t batch_size = 32;  ///< examples per batch, >= 1
  bool shuffle = true;          ///< whether each epoch has an order of its own
  std::uint64_t seed = 1;       ///< of the order
  bool drop_last = false;       ///< leaves out the last batch of an epoch if it is smaller
};

/// Divides the examples 0 to num_examples - 1 into batches:
///
///     const DataLoader loader(images.shape()[0], {.batch_size = 64});
///     for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
///       for (const auto& batch : loader.epoch(epoch)) {
///         const Tensor x = index_select(images, 0, Ids(batch));
///
/// Every epoch has every example once, in an order that is a pure function of (seed, epoch). A run
/// is therefore resumed by its epoch and the number of batches that are done; there is no state to
/// save.
class DataLoader {
 public:
  /// Batches of the examples 0 to num_examples - 1.
  ///
  /// throws  std::invalid_argument if there are no examples or more than an index of int32 can
  ///         count, or if batch_size is 0.
  explicit DataLoader(std::size_t num_examples, const DataLoaderOptions& options = {});

  /// Number of batches of every epoch; 0 if drop_last leaves none.
  std::size_t batches_per_epoch() const;

  /// The batches of an epoch from `first_batch` on, as indices of examples.
  std::vector<std::vector<std::int32_t>> epoch(std::uint64_t epoch,
                                               std::size_t first_batch = 0) const;

 private:
  std::size_t num_examples_;
  DataLoaderOptions options_;
};

}  // namespace tapestry
