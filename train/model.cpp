#include "train/model.h"

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

std::uint64_t count_parameters(const TransformerOptions& options, const NetworkSizes& sizes) {
  Parameters parameters = Parameters::without_values(DType::float32);
  make_network(parameters, options, sizes, pad_id);
  return parameters.num_values();
}

Model::Model(const TransformerOptions& options, const NetworkSizes& sizes, DType dtype,
             std::uint64_t seed)
    : parameters(dtype, seed), network(make_network(parameters, options, sizes, pad_id)) {
  parameters.gather();
}

}  // namespace tapestry
