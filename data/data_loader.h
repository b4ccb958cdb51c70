#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tapestry {

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
  /// throws  std::invalid_argument if there are no examples or more than an index of int32 can
  ///         count, or if batch_size is 0.
  explicit DataLoader(std::size_t num_examples, const DataLoaderOptions& options = {});

  std::size_t batches_per_epoch() const;

  /// The batches of an epoch from `first_batch` on, as indices of examples.
  std::vector<std::vector<std::int32_t>> epoch(std::uint64_t epoch,
                                               std::size_t first_batch = 0) const;

 private:
  std::size_t num_examples_;
  DataLoaderOptions options_;
};

}  // namespace tapestry
