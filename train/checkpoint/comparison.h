#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train/checkpoint/array_store.h"

namespace tapestry {

/// An array that differs between two checkpoints.
struct ArrayDifference {
  std::string path;  ///< `parameters/encoder.norm.weight`
  /// `only in the first`, `only in the second`, or how types, shapes or elements differ.
  std::string what;
};

/// The arrays that differ in presence, type, shape or in any bit of their elements: parameters,
/// averages, buffers and optimizer state in this order, then all others, each in order of their
/// paths. Texts and what does not belong to the training state, such as the config and the version
/// of the program, are left out.
///
/// For elements it says how many differ, and index and values of the first; for floating point
/// numbers also the largest difference of finite ones, and how many have a value that is not
/// finite.
std::vector<ArrayDifference> compare_arrays(const ArrayStore& a, const ArrayStore& b);

}  // namespace tapestry
