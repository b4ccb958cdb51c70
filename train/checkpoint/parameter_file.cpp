// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/parameter_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/program.h"
#include "train/checkpoint/array_store.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"

namespace tapestry {
namespace {

constexpr std::size_t max_names = 8;  // maximum number of names per line of a report

bool is_float(const StoredArray& array) {
  return array.type == ElementType::float32 || array.type == ElementType::float64;
}

/// Converts the elements of a stored array to a tensor of the same shape.
void copy_array(const StoredArray& from, Tensor to) {
  visit_elements(from, [&](const auto& elements) {
    dispatch(to.dtype(), [&]<class T>() {
      std::ranges::transform(elements, to.mutable_values<T>().begin(),
                             [](auto value) { return static_cast<T>(value); });
    });
  });
}

/// Matches the arrays in a group of a file with the tensors of a model.
class Group {
 public:
  Group(const ArrayStore& arrays, std::string prefix, const std::vector<NamedTensor>& tensors)
      : arrays_(arrays), prefix_(std::move(prefix)), tensors_(tensors) {}

  void compare(LoadReport& report) const {
    for (const auto& [name, tensor] : tensors_) {
      const std::string path = prefix_ + name;
      if (!arrays_.contains(path)) {
        report.missing.push_back(name);
      } else if (fits(tensor, arrays_.at(path))) {
        report.loaded.push_back(name);
      } else {
        report.other_shape.push_back({.name = name,
                                      .found = to_string(arrays_.at(path).shape),
                                      .expected = to_string(tensor.shape())});
      }
    }
    for (const auto& [path, array] : arrays_) {
      if (path.starts_with(prefix_) && !is_known(path.substr(prefix_.size()))) {
        report.unexpected.push_back(path.substr(prefix_.size()));
      }
    }
  }

  void copy() const {
    for (const auto& [name, tensor] : tensors_) {
      const std::string path = prefix_ + name;
      if (arrays_.contains(path) && fits(tensor, arrays_.at(path))) {
        copy_array(arrays_.at(path), tensor);
      }
    }
  }

 private:
  static bool fits(const Tensor& tensor, const StoredArray& array) {
    return is_float(array) && array.shape == stored_shape(tensor);
  }
  bool is_known(const std::string& name) const {
    return std::ranges::find(tensors_, name, &NamedTensor::name) != tensors_.end();
  }

  const ArrayStore& arrays_;
  std::string prefix_;
  const std::vector<NamedTensor>& tensors_;
};

/// Matches the parameters in `group` of the file, and the buffers.
std::array<Group, 2> model_groups(const ArrayStore& arrays, const std::string& group,
                                  const Parameters& parameters) {
  return {Group(arrays, group, parameters.list()),
          Group(arrays, buffers_group, parameters.buffers())};
}

/// throws  CheckpointError if no tensor matches, or if `strict` and the report is not complete.
LoadReport compare_model(std::span<const Group> groups, const std::filesystem::path& path,
                         bool strict) {
  LoadReport report;
  for (const Group& group : groups) group.compare(report);
  if (report.loaded.empty()) {
    throw CheckpointError(fmt::format("{}: found no tensor with a name and shape of the model\n{}",
                                      escaped(path.string()), to_string(report)),
                          "create the model with the sizes of the saved model");
  }
  if (strict && !report.complete()) {
    throw CheckpointError(
        fmt::format("{}: does not fit the model:\n{}", escaped(path.string()), to_string(report)),
        "create the model with the sizes of the saved model, or load with strict = false");
  }
  return report;
}

/// throws  CheckpointError unless the group has exactly the tensors and the step count of an
///         optimizer.
void require_same_optimizer(const Group& group, const std::filesystem::path& path) {
  LoadReport report;
  group.compare(report);
  std::erase(report.unexpected, "steps");
  if (report.complete()) return;
  throw CheckpointError(
      fmt::format("{}: the saved optimizer state does not fit this optimizer:\n{}",
                  escaped(path.string()), to_string(report)),
      "create an optimizer with the kind and options of the saved optimizer");
}

ArrayStore model_arrays(const Parameters& parameters) {
  ArrayStore arrays;
  arrays.put_text("program_version", program_version);
  put_tensors(arrays, "parameters", parameters.list());
  put_tensors(arrays, "buffers", parameters.buffers());
  return arrays;
}

/// Lists names as "a, b and 3 more".
std::string listed(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), max_names);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace

std::string inference_group(const ArrayStore& arrays) {
  const bool has_average = std::ranges::any_of(
      arrays, [](const auto& array) { return array.first.starts_with(average_group); });
  return has_average ? average_group : parameters_group;
}

void put_tensors(ArrayStore& arrays, const std::string& group,
                 const std::vector<NamedTensor>& tensors) {
  std::vector<StoredArray> copies(tensors.size());
  const kernels::UncancellableScope whole_copy;
  kernels::parallel_for(copies.size(), [&](std::size_t i) {
    const Tensor& tensor = tensors[i].tensor;
    dispatch(tensor.dtype(), [&]<class T>() {
      const auto bytes = std::as_bytes(tensor.values<T>());
      copies[i] = {element_type_of<T>, stored_shape(tensor), {bytes.begin(), bytes.end()}};
    });
  });
  for (std::size_t i = 0; i < copies.size(); ++i) {
    arrays.put(fmt::format("{}/{}", group, tensors[i].name), std::move(copies[i]));
  }
}

void save_parameters(const Parameters& parameters, const std::filesystem::path& path) {
  write_checkpoint(path, model_arrays(parameters));
}

void save_parameters(const Parameters& parameters, const Optimizer& optimizer,
                     const std::filesystem::path& path) {
  ArrayStore arrays = model_arrays(parameters);
  put_tensors(arrays, "optimizer", optimizer.state());
  arrays.put_scalar(optimizer_steps, optimizer.steps());
  write_checkpoint(path, arrays);
}

std::string to_string(const LoadReport& report) {
  std::string text = fmt::format("{} matching tensor{}", report.loaded.size(),
                                 report.loaded.size() == 1 ? "" : "s");
  if (!report.missing.empty()) {
    text += fmt::format("\nmissing in the file: {}", listed(report.missing));
  }
  if (!report.unexpected.empty()) {
    text += fmt::format("\nnot in the model: {}", listed(report.unexpected));
  }
  if (!report.other_shape.empty()) {
    std::vector<std::string> shapes;
    for (const auto& [name, found, expected] : report.other_shape) {
      shapes.push_back(fmt::format("{} {}, expected {}", name, found, expected));
    }
    text += fmt::format("\nother shapes: {}", listed(shapes));
  }
  return text;
}

LoadReport load_parameters(Parameters& parameters, const std::filesystem::path& path,
                           const LoadOptions& options) {
  const ArrayStore arrays = read_checkpoint(path);
  const auto groups = model_groups(arrays, inference_group(arrays), parameters);
  LoadReport report = compare_model(groups, path, options.strict);
  for (const Group& group : groups) group.copy();
  return report;
}

void load_parameters(Parameters& parameters, Optimizer& optimizer,
                     const std::filesystem::path& path) {
  const ArrayStore arrays = read_checkpoint(path);
  const auto groups = model_groups(arrays, parameters_group, parameters);
  compare_model(groups, path, true);
  if (!arrays.contains(optimizer_steps)) {
    throw CheckpointError(
        fmt::format("{}: has no optimizer state", escaped(path.string())),
        "save it with save_parameters(parameters, optimizer, path), or load only the parameters");
  }
  const std::vector<NamedTensor> tensors = optimizer.state();
  const Group state(arrays, optimizer_group, tensors);
  require_same_optimizer(state, path);
  const auto steps = arrays.get_scalar<std::uint64_t>(optimizer_steps);
  for (const Group& group : groups) group.copy();
  state.copy();
  optimizer.set_steps(steps);
}

}  // namespace tapestry
