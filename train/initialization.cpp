#include "train/initialization.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "train/error.h"

namespace tapestry {
namespace {

/// "encoder.norm.weight (64)"
std::string described(const NamedTensor& parameter) {
  return fmt::format("{} {}", parameter.name, to_string(parameter.tensor.shape()));
}

/// "new: 2 tensors: head.bias (2), head.weight (2, 64)"
std::string listed(const char* what, const std::vector<std::string>& tensors) {
  return fmt::format("{}: {} {}{}{}", what, tensors.size(),
                     tensors.size() == 1 ? "tensor" : "tensors", tensors.empty() ? "" : ": ",
                     fmt::join(tensors, ", "));
}

}  // namespace

std::vector<std::string> take_over(const TrainedModel& from, const std::string& origin,
                                   const Vocabulary& targets, Model& to) {
  const bool same_targets = from.codec.target_vocabulary() == targets;
  /// Whether a tensor of one model means the same in the other.
  const auto same = [&](const NamedTensor& one, const Parameters& other) {
    const NamedTensor* found = other.find(one.name);
    const bool of_head = one.name.starts_with("head.");
    return found != nullptr && found->tensor.shape() == one.tensor.shape() &&
           (same_targets || !of_head);
  };
  const Parameters& given = from.model->parameters;
  std::vector<std::string> made, left;
  std::size_t loaded = 0, values = 0;
  for (const NamedTensor& parameter : to.parameters) {
    if (!same(parameter, given)) {
      made.push_back(described(parameter));
      continue;
    }
    copy_values(given.find(parameter.name)->tensor, parameter.tensor);
    ++loaded;
    values += parameter.tensor.size();
  }
  for (const NamedTensor& parameter : given) {
    if (!same(parameter, to.parameters)) left.push_back(described(parameter));
  }
  if (loaded == 0) {
    throw CheckpointError(
        fmt::format("{}: found no tensor with the name and shape of one of the model", origin),
        "give the model the sizes of that one: d_model, d_ff, layers");
  }
  // Rounded down: 100.0 % only where nothing is new.
  const std::size_t permille = 1000 * values / to.parameters.num_values();
  return {
      fmt::format("initialized from {}, step {}: {} of {} tensors loaded, {}.{} % of the values",
                  origin, from.step, loaded, loaded + made.size(), permille / 10, permille % 10),
      listed("  new", made), listed("  left", left)};
}

}  // namespace tapestry
