#include "layers/make_network.h"

#include "autograd/error.h"
#include "layers/language_model.h"
#include "layers/transformer.h"

namespace tapestry {

std::unique_ptr<Network> make_network(Parameters& parameters, const TransformerOptions& options,
                                      const NetworkSizes& sizes, std::int32_t padding_id) {
  switch (options.kind) {
    case ModelKind::seq2seq:
      return std::make_unique<Transformer>(parameters, options, sizes.source, sizes.target,
                                           padding_id);
    case ModelKind::language_model:
      return std::make_unique<LanguageModel>(parameters, options, sizes.target, padding_id);
  }
  throw ValueError("make_network: unknown kind of model");
}

}  // namespace tapestry
