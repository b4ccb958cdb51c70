#include "train/model.h"

namespace tapestry {

NetworkSizes network_sizes(const Config& /*config*/, const Vocabulary& source,
                           const Vocabulary& target) {
  return {.source = source.size(), .target = target.size()};
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
