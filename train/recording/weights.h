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

/// Numbers of values in equal intervals.
struct Histogram {
  double low = 0.0;                     ///< where the first interval begins
  double high = 0.0;                    ///< where the last interval ends
  std::vector<std::uint64_t> counts{};  ///< in each interval; empty without finite values
};

/// The distribution of the values of a tensor, or of several. Values that are not finite count only
/// in `values` and `not_finite`.
struct WeightStatistics {
  std::uint64_t values = 0;      ///< number of values
  std::uint64_t zeros = 0;       ///< values equal to 0
  std::uint64_t not_finite = 0;  ///< values that are NaN or infinite
  double norm = 0.0;             ///< Euclidean norm
  double mean = 0.0;             ///< mean of the finite values
  double deviation = 0.0;        ///< standard deviation of the finite values
  double low = 0.0;              ///< the smallest
  double high = 0.0;             ///< the greatest
  Histogram histogram{};         ///< from the smallest to the greatest value

  /// sqrt of the mean of squares
  double root_mean_square() const;
};

/// The statistics of all values of the tensors.
///
/// intervals  number of intervals of the histogram, >= 1; one if all values are equal
WeightStatistics weight_statistics(std::span<const Tensor> tensors, std::size_t intervals = 40);

/// A part of a model with the statistics of its weights.
struct BlockWeights {
  std::string path;           ///< "encoder.layers.0", as block_path() of its parameters
  WeightStatistics matrices;  ///< parameters with two or more axes; all if it has none
  /// A parameter with its name relative to the path.
  struct Parameter {
    std::string name;             ///< "self_attn.q_proj.weight"
    Shape shape;                  ///< its shape
    bool frozen = false;          ///< whether it is not trained
    WeightStatistics statistics;  ///< statistics of its values
  };
  std::vector<Parameter> parameters;  ///< in their order
};

/// The parameters of a model by blocks, in their order.
std::vector<BlockWeights> weights_by_block(const Parameters& parameters);

/// The weights of a part of a model at a step: of its parameters with two or more axes, or of all
/// if it has none.
struct BlockRecord {
  std::string path;                             ///< as block_path() of its parameters
  WeightStatistics weights{};                   ///< statistics of their values
  std::optional<WeightStatistics> gradients{};  ///< gradients of the step, before clipping
  std::optional<double> update_ratio{};         ///< |w' - w| / |w| of the step from w to w', with
                                                ///< Euclidean norms
};

/// Observes one step of training: the weights of each block before and after the update, and the
/// gradients. Changes nothing.
class WeightWatch {
 public:
  /// parameters  must outlive the object
  explicit WeightWatch(const Parameters& parameters);

  /// Copies the weights; call it before they are updated. Returns false if there is not enough
  /// memory for that; then after_update() must not be called.
  bool before_update();
  /// Computes the ratios and frees the copy; call it after the update.
  void after_update();

  /// The blocks after the update, in the order of their parameters. Gradients and ratios are those
  /// of the step that before_update() and after_update() enclosed; nullopt if they were not called
  /// since the last measure().
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
