// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "layers/parameters.h"
#include "optim/optimizer.h"

namespace tapestry {

class ArrayStore;

/// Writes the values of all parameters and buffers to a checkpoint file with the arrays
/// `parameters/NAME` and `buffers/NAME` (train/checkpoint/format.md). After a crash at any time,
/// `path` is either the complete old file or the complete new file.
///
/// throws  OutputError if the file cannot be written; an existing file stays unchanged.
void save_parameters(const Parameters& parameters, const std::filesystem::path& path);

/// Also saves the state of an optimizer, so that a custom training loop can continue
/// bit-identically: `optimizer/NAME` for each tensor of Optimizer::state(), and `optimizer/steps`.
void save_parameters(const Parameters& parameters, const Optimizer& optimizer,
                     const std::filesystem::path& path);

/// A tensor with different shapes in a file and in a model.
struct OtherShape {
  std::string name;      ///< "output.weight"
  std::string found;     ///< the shape in the file, "(10, 64)"
  std::string expected;  ///< the shape in the model, "(12, 64)"
};

/// The tensors of a file and of a model, compared by name and shape. Includes buffers.
struct LoadReport {
  std::vector<std::string> loaded{};      ///< copied to the model
  std::vector<std::string> missing{};     ///< in the model, not in the file
  std::vector<std::string> unexpected{};  ///< in the file, not in the model
  std::vector<OtherShape> other_shape{};  ///< in both the model and the file, with different shapes

  /// Whether every tensor of the model was loaded and every tensor of the file was used.
  bool complete() const { return missing.empty() && unexpected.empty() && other_shape.empty(); }
};

/// One line with the number of loaded tensors, and one line for each non-empty list of mismatches:
///
///     12 matching tensors
///     missing in the file: head.weight, head.bias
std::string to_string(const LoadReport& report);

/// Options of load_parameters(). The member initializers are the defaults.
struct LoadOptions {
  bool strict = true;  ///< whether missing, unexpected and mismatched tensors are errors
};

/// Copies tensors of a file to the parameters and buffers with the same names and shapes, converted
/// to the model's element type.
///
/// path    a file of save_parameters(), or a checkpoint of a run. If the checkpoint has averages of
///         the parameters (train.ema_decay), loads the averages.
/// throws  CheckpointError, with an unchanged model, if the file cannot be read or is damaged; if
///         no tensor matches; with the report as its message if `strict` and the report is not
///         complete.
LoadReport load_parameters(Parameters& parameters, const std::filesystem::path& path,
                           const LoadOptions& options = {});

/// Copies all parameters and buffers and the state of an optimizer, to continue training.
///
/// optimizer  has the kind and options of the saved optimizer. Adam and AdamW have interchangeable
///            state; Sgd with and without momentum do not.
/// path       a file of save_parameters() with an optimizer, or a checkpoint of a run. Loads the
///            parameters of a checkpoint, not their averages.
/// throws     CheckpointError like load_parameters() with `strict`, and if the file has no
///            optimizer state or the state of a different optimizer. The parameters and the
///            optimizer are then unchanged.
void load_parameters(Parameters& parameters, Optimizer& optimizer,
                     const std::filesystem::path& path);

/// The group of a checkpoint with the parameters for inference: "average/" if the checkpoint has
/// averages (train.ema_decay), else "parameters/".
std::string inference_group(const ArrayStore& arrays);

/// Adds tensors to a checkpoint at the paths `group/NAME`.
void put_tensors(ArrayStore& arrays, const std::string& group,
                 const std::vector<NamedTensor>& tensors);

}  // namespace tapestry
