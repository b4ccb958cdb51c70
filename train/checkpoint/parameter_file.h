// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "layers/parameters.h"
#include "optim/optimizer.h"

namespace tapestry {

class ArrayStore;

/// Writes the values of all parameters and buffers to an HDF5 file with digests, in the layout of a
/// checkpoint: `parameters/NAME` and `buffers/NAME` (train/checkpoint/format.md). After a crash at
/// any time the path holds either the complete old or the complete new file.
///
/// throws  OutputError if the file cannot be written; an existing file is then unchanged.
void save_parameters(const Parameters& parameters, const std::filesystem::path& path);

/// Saves also the state of an optimizer, so that load_parameters() continues a custom
/// training loop bit-identically: also `optimizer/NAME` for each tensor of Optimizer::state(), and
/// `optimizer/steps`.
void save_parameters(const Parameters& parameters, const Optimizer& optimizer,
                     const std::filesystem::path& path);

/// A tensor of a file whose shape differs from that in the model.
struct OtherShape {
  std::string name;      ///< "output.weight"
  std::string found;     ///< the shape in the file, "(10, 64)"
  std::string expected;  ///< the shape in the model, "(12, 64)"
};

/// Which tensors of a file fit a model. Buffers are listed like parameters.
struct LoadReport {
  std::vector<std::string> loaded{};      ///< copied to the model
  std::vector<std::string> missing{};     ///< of the model, not in the file
  std::vector<std::string> unexpected{};  ///< in the file, not in the model
  std::vector<OtherShape> other_shape{};  ///< in both, with different shapes

  /// Whether every tensor of the model was loaded and every tensor of the file was used.
  bool complete() const { return missing.empty() && unexpected.empty() && other_shape.empty(); }
};

/// One line for each kind of tensor in the report:
///
///     12 tensors loaded
///     missing in the file: head.weight (no tensor of this name), ...
std::string to_string(const LoadReport& report);

/// Options of load_parameters(). The member initializers are the defaults.
struct LoadOptions {
  bool strict = true;  ///< whether tensors that do not fit are an error
};

/// Copies tensors of a file to the parameters and buffers with the same names and shapes, converted
/// to the model's element type. The file was written by save_parameters(), or is a checkpoint of a
/// run, with the averages of the parameters if it has them (train.ema_decay).
///
/// throws  CheckpointError if the file cannot be read or is damaged; if it has no parameter of the
///         model; if `strict`, with the report, unless it is complete. The model is then unchanged.
LoadReport load_parameters(Parameters& parameters, const std::filesystem::path& path,
                           const LoadOptions& options = {});

/// Copies all parameters and buffers and the state of an optimizer, which is made alike, from a
/// file that save_parameters() has written with an optimizer, or from a checkpoint of a run, of
/// which the parameters are taken and not their averages.
///
/// throws  CheckpointError as load_parameters() with `strict`; if the file has no state of an
///         optimizer, or of another kind of optimizer or of other options, such as Sgd with
///         and without momentum. Adam and AdamW have the same state. Parameters and optimizer are
///         then unchanged.
void load_parameters(Parameters& parameters, Optimizer& optimizer,
                     const std::filesystem::path& path);

/// The group of a checkpoint that has the values of parameters for inference: "average/" if there
/// are averages (train.ema_decay), or else "parameters/".
std::string inference_group(const ArrayStore& arrays);

/// Adds tensors to a checkpoint as `GROUP/NAME`.
void put_tensors(ArrayStore& arrays, const std::string& group,
                 const std::vector<NamedTensor>& tensors);

}  // namespace tapestry
