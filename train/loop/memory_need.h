// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/corpus.h"
#include "data/io/memory.h"
#include "layers/model.h"
#include "train/config/config.h"

/// Estimates of the memory that a training run needs in addition to its loaded corpus.
namespace tapestry {

/// The memory need of a run in bytes, by part. Validation reuses the freed memory of training
/// steps; saving and the final average need additional memory, one after the other.
struct MemoryNeed {
  /// Parameters, gradients and their sums over train.accumulate, optimizer moments, positional
  /// encodings.
  std::uint64_t state = 0;
  std::uint64_t step = 0;  ///< forward and backward pass of the largest batch
  /// Logits of the largest validation batch, or of the longest example of training_sample(),
  /// whichever is more.
  std::uint64_t validation = 0;
  std::uint64_t saving = 0;          ///< a checkpoint: the snapshot and the headers of the file
  std::uint64_t average = 0;         ///< averaging the last checkpoints: train.average_last
  std::uint64_t other = 48'000'000;  ///< libraries, stacks, unused blocks of the pool

  /// Memory of each process of a parallel run.
  std::uint64_t per_process() const { return state + std::max(step, validation) + other; }
  /// Additional memory of rank 0.
  std::uint64_t for_checkpoints() const { return std::max(saving, average); }
  std::uint64_t total() const { return per_process() + for_checkpoints(); }
};

/// All parts except the step, computed from shapes.
///
/// processes  number of processes that divide moments and averages of the weights
MemoryNeed need_of_model(const Config& config, const Corpus& corpus, std::size_t processes = 1);

/// throws  MemoryError if parameters, gradients and moments need more than the total memory
///         available to the process. Call before creating the model.
void require_memory_for_model(const Config& config, const Corpus& corpus,
                              const AvailableMemory& available, std::size_t processes = 1);

/// A batch with the maximum number of rows and the longest source and target sentences of the
/// training set. No batch of the run is larger on any axis.
Batch largest_batch(const Examples& examples, std::size_t batch_size, const BatchRules& rules = {});

/// The batches that bound the memory of a step. With train.batch_size: largest_batch(). With
/// train.batch_tokens: the batches that maximize rows x longest_side^2 and rows x longest_side, or
/// one batch if it maximizes both. The first batch has the longest side. With subword
/// regularization, each example has the longest of its segmentations in eight epochs.
std::vector<Batch> largest_batches(const Corpus& corpus, const Config& config);

/// Runs the forward and backward pass of a batch with dropout, so that the memory pool, the threads
/// and BLAS allocate the memory of a step of this size. Parameters and counters do not change;
/// gradients are cleared. Returns the pool's peak bytes in use, minus its bytes in use before the
/// call.
///
/// throws  kernels::OutOfMemory
std::uint64_t warm_up(const Model& model, const Batch& batch, const Config& config);

/// Estimates the largest result of warm_up() for largest_batches() by extrapolating from two
/// smaller batches. Measuring avoids a formula that would have to be kept consistent with the
/// layers.
///
/// throws  kernels::OutOfMemory if there is not enough memory for the smaller batches
std::uint64_t estimate_step(const Model& model, const Corpus& corpus, const Config& config);

/// "memory: about 1.4 GB needed (model and optimizer 0.9, the largest step 0.4, ...), 21.3 GB free"
/// `largest_step` is Task::describe_size() of the largest batch.
std::string to_line(const MemoryNeed& need, const std::string& largest_step,
                    const AvailableMemory& available);

/// A shortage of memory, and a hint for avoiding it.
struct MemoryShortage {
  std::string found;  ///< "3.1 GB of memory may be needed, 2.0 GB are free"
  std::string hint;   ///< "try a smaller train.batch_size ..."
};

/// The shortage if more memory is needed than is free; otherwise nullopt.
std::optional<MemoryShortage> find_memory_shortage(const MemoryNeed& need,
                                                   const AvailableMemory& available,
                                                   const Config& config);

/// throws  MemoryError if the model and the largest step need more than the total memory available
///         to the process, such as the limit of its control group: the system would kill the
///         process.
void require_memory_for_step(const MemoryNeed& need, const AvailableMemory& available,
                             const Config& config);

/// The line "warning: FOUND; HINT" of find_memory_shortage(); nullopt without a shortage.
std::optional<std::string> warning_about_memory(const MemoryNeed& need,
                                                const AvailableMemory& available,
                                                const Config& config = {});

}  // namespace tapestry
