#include "train/model.h"

#include <algorithm>

#include "train/objective.h"

namespace tapestry {

NetworkSizes network_sizes(const Config& config, const Vocabulary& source,
                           const Vocabulary& target) {
  const bool tells_classes = objective_of(config.model.kind) == Objective::label;
  return {.source = source.size(),
          .target = tells_classes ? target.size() - first_word_id : target.size(),
          .image = {.height = config.data.image_height,
                    .width = config.data.image_width,
                    .channels = config.data.image_channels}};
}

NetworkSizes network_sizes(const Config& config, const Corpus& corpus) {
  return network_sizes(config, corpus.source_vocabulary, corpus.target_vocabulary);
}

ValueCount count_values(const TransformerOptions& options, const NetworkSizes& sizes) {
  Parameters parameters = Parameters::without_values(DType::float32);
  make_network(Scope(parameters), options, sizes, pad_id);
  return {.parameters = parameters.num_values(), .constants = parameters.num_constants()};
}

void copy_values(const Tensor& from, Tensor to) {
  const Tensor converted = from.copied(to.dtype());
  dispatch(to.dtype(), [&]<class T>() {
    std::ranges::copy(converted.values<T>(), to.mutable_values<T>().begin());
  });
}

Model::Model(const TransformerOptions& options, const NetworkSizes& sizes, DType dtype,
             std::uint64_t seed)
    : parameters(dtype, seed), network(make_network(Scope(parameters), options, sizes, pad_id)) {
  parameters.gather();
}

}  // namespace tapestry
