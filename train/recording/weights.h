// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/shape.h"
#include "autograd/tensor.h"
#include "layers/parameters.h"

namespace tapestry {

/// A histogram with intervals of equal width.
struct Histogram {
  double low = 0.0;                     ///< lower end of the first interval
  double high = 0.0;                    ///< upper end of the last interval
  std::vector<std::uint64_t> counts{};  ///< values in each interval; empty without finite values
};

/// Statistics of the values of one or more tensors. Non-finite values are included only in `values`
/// and `not_finite`.
struct WeightStatistics {
  std::uint64_t values = 0;      ///< number of values
  std::uint64_t zeros = 0;       ///< number of values equal to 0
  std::uint64_t not_finite = 0;  ///< number of values that are NaN or infinite
  double norm = 0.0;             ///< Euclidean norm of the finite values
  double mean = 0.0;             ///< mean of the finite values
  double deviation = 0.0;        ///< standard deviation of the finite values
  double low = 0.0;              ///< smallest finite value
  double high = 0.0;             ///< largest finite value
  Histogram histogram{};         ///< histogram from `low` to `high`

  /// sqrt(mean(x^2)) of the finite values
  double root_mean_square() const;
};

/// The statistics of all values of the tensors.
///
/// intervals  number of intervals of the histogram, >= 1; the histogram has a single interval if
///            all values are equal
WeightStatistics weight_statistics(std::span<const Tensor> tensors, std::size_t intervals = 40);

/// A block of a model and the statistics of its weights.
struct BlockWeights {
  /// A parameter. Its name is relative to the path of the block.
  struct Parameter {
    std::string name;             ///< "self_attn.q_proj.weight"
    Shape shape;                  ///< shape of the parameter
    bool frozen = false;          ///< whether it is excluded from training
    WeightStatistics statistics;  ///< statistics of its values
  };

  std::string path;                   ///< block_path() of the parameters, "encoder.layers.0"
  WeightStatistics matrices;          ///< statistics of parameters with two or more axes, or of all
                                      ///< parameters if the block has no such parameter
  std::vector<Parameter> parameters;  ///< parameters in the order of the model
};

/// Groups the parameters of a model by block, in the order of the model.
std::vector<BlockWeights> weights_by_block(const Parameters& parameters);

/// The weights of a block at a step. Covers the matrices of the block (parameters with two or more
/// axes), or all its parameters if it has no matrices.
struct BlockRecord {
  std::string path;                             ///< block_path() of the parameters
  WeightStatistics weights{};                   ///< statistics of the values
  std::optional<WeightStatistics> gradients{};  ///< statistics of the gradients, before clipping
  std::optional<double> update_ratio{};         ///< |w' - w| / |w| for the step from w to w', with
                                                ///< Euclidean norms
};

/// Observes one training step: the weights of each block before and after the update, and the
/// gradients. Does not modify the model.
class WeightWatch {
 public:
  /// parameters  must outlive the object
  explicit WeightWatch(const Parameters& parameters);

  /// Copies the weights; call this before the update. Returns false if there is not enough memory;
  /// in this case, do not call after_update().
  bool before_update();
  /// Computes the update ratios and frees the copies; call this after the update.
  void after_update();

  /// Returns the blocks after the update, in the order of the model. Gradients and update ratios
  /// belong to the step between before_update() and after_update(); they are nullopt if these
  /// functions were not called since the last measure().
  std::vector<BlockRecord> measure();

 private:
  struct Block {
    std::string path;
    std::vector<Tensor> tensors;
  };

  std::vector<Block> blocks_;
  std::vector<std::vector<Tensor>> before_;  ///< copies of the tensors of each block
  std::vector<double> ratios_;               ///< update ratio of each block
};

}  // namespace tapestry
