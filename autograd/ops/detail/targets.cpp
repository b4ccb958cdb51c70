#include "autograd/ops/detail/targets.h"

#include <fmt/format.h>

#include "autograd/error.h"

namespace tapestry {

Targets::Targets(const char* operation, const Ids& ids, std::size_t vocabulary,
                 const CrossEntropyOptions& options)
    : ids_(ids.size()), vocabulary_(vocabulary), label_smoothing_(options.label_smoothing) {
  if (!(label_smoothing_ >= 0 && label_smoothing_ < 1)) {
    throw ValueError(fmt::format("{}: label_smoothing is {}, expected 0 <= alpha < 1", operation,
                                 label_smoothing_));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int32_t id = ids.data()[i];
    const bool ignored = id == options.ignored_id;
    if (!ignored && (id < 0 || static_cast<std::size_t>(id) >= vocabulary)) {
      throw ValueError(fmt::format("{}: target {} is {}, expected 0 <= id < {}", operation,
                                   ids.place(i), id, vocabulary));
    }
    ids_[i] = ignored ? -1 : id;
    num_kept_ += ignored ? 0 : 1;
  }
  const std::size_t normalizer = options.normalizer != 0 ? options.normalizer : num_kept_;
  if (normalizer == 0) {
    throw ValueError(
        fmt::format("{}: all {} targets are ignored (id {}), expected at least one that counts",
                    operation, ids_.size(), options.ignored_id));
  }
  normalizer_ = static_cast<double>(normalizer);
}

}  // namespace tapestry
