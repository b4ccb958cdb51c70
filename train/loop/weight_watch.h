#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "layers/parameters.h"
#include "train/loop/weight_statistics.h"

namespace tapestry {

/// The weights of a part of a model at a step: of its parameters with two or more axes, or of all
/// if it has none.
struct BlockRecord {
  std::string path;                             ///< as block_path() of its parameters
  WeightStatistics weights{};                   ///< of their values
  std::optional<WeightStatistics> gradients{};  ///< of the step, before clipping
  std::optional<double> update_ratio{};         ///< |w' - w| / |w| of the step from w to w', with
                                                ///< Euclidean norms
};

/// Observes one step of training: the weights of each block before and after the update, and the
/// gradients. Changes nothing.
class WeightWatch {
 public:
  /// parameters  must outlive the object
  explicit WeightWatch(const Parameters& parameters);

  /// To be called before the weights are updated: copies them. Returns false if there is not enough
  /// memory for that; after_update() is not called then.
  bool before_update();
  /// To be called after the update: computes the ratios, and frees the copy.
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
  std::vector<std::vector<Tensor>> before_;  ///< of each block
  std::vector<double> ratios_;               ///< of each block
};

}  // namespace tapestry
