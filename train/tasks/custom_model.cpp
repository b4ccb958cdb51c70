#include "train/tasks/custom_model.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace tapestry {
namespace {

const Task& require_task(const CustomModelOptions& options) {
  // Translation decodes with cached states of a Transformer.
  if (options.like == "seq2seq") {
    throw std::invalid_argument(fmt::format(
        "CustomModel: {} is like seq2seq, whose answers need a Transformer; expected another kind",
        options.kind));
  }
  if (!options.make_network) {
    throw std::invalid_argument(
        fmt::format("CustomModel: {} has no make_network, expected a function", options.kind));
  }
  return find_task(options.like);
}

}  // namespace

CustomModel::CustomModel(CustomModelOptions options)
    : options_(std::move(options)), like_(require_task(options_)), kind_(like_.kind()) {
  kind_.name = options_.kind;
  kind_.custom_keys = options_.custom_keys;
  if (options_.check != nullptr) kind_.check = options_.check;
}

}  // namespace tapestry
