#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "data/batch.h"
#include "data/corpus.h"
#include "layers/model.h"
#include "train/config/config.h"
#include "train/platform/machine.h"

/// How much memory a training run is going to take beside the corpus it has loaded.
namespace tapestry {

/// Bytes of the parts of a run. Validation finds the memory of steps free to use; a checkpoint is
/// saved while that is kept.
struct MemoryNeed {
  std::uint64_t state = 0;           ///< parameters, gradients, the optimiser's moments, positions
  std::uint64_t step = 0;            ///< forward and backward on the largest batch
  std::uint64_t validation = 0;      ///< the logits of the largest batch to validate on
  std::uint64_t saving = 0;          ///< a checkpoint: a snapshot, the file in memory and its copy
  std::uint64_t other = 48'000'000;  ///< libraries, stacks, blocks of sizes no longer needed

  std::uint64_t total() const { return state + std::max(step, validation) + saving + other; }
};

/// All but the step, from shapes alone.
MemoryNeed need_of_model(const Config& config, const Corpus& corpus);

/// throws  MemoryError if parameters, gradients and moments alone are more than the process could
///         ever have. To be called before they are made.
void require_memory_for_model(const Config& config, const Corpus& corpus,
                              const AvailableMemory& available);

/// As many rows as a batch may have, and in both languages the longest sentences of the training
/// set: no batch of the run is larger on any axis.
Batch largest_batch(const std::vector<Example>& examples, std::size_t batch_size,
                    const BatchRules& rules = {});

/// Forward and backward on a batch, dropout on: what the pool, the threads and BLAS take for a step
/// of that size they take here. The run is as it was: neither weights nor counters change, and the
/// gradients are cleared. Returns the bytes of the pool that were in use at most, beside those in
/// use now.
///
/// throws  kernels::OutOfMemory
std::uint64_t warm_up(const Model& model, const Batch& batch, const Config& config);

/// What warm_up() would return for the largest batch, from a few of its rows and twice as many: it
/// knows nothing of the layers that would have to be kept in step with them.
/// throws  kernels::OutOfMemory if there is not even memory for those
std::uint64_t estimate_step(const Model& model, const Corpus& corpus, const Config& config);

/// "memory: about 1.4 GB needed (model and optimiser 0.9, the largest step 0.4, ...), 21.3 GB free"
/// `largest_step` is Task::describe_size() of the largest batch.
std::string to_line(const MemoryNeed& need, const std::string& largest_step,
                    const AvailableMemory& available);

/// One line if more is needed than is free, with what to reduce.
std::optional<std::string> warning_about_memory(const MemoryNeed& need,
                                                const AvailableMemory& available);

}  // namespace tapestry
