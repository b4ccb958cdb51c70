#include "layers/make_network.h"

#include "autograd/error.h"
#include "layers/encoder_models.h"
#include "layers/transformer.h"

namespace tapestry {

std::unique_ptr<Network> make_network(const Scope& scope, const TransformerOptions& options,
                                      const NetworkSizes& sizes, std::int32_t padding_id) {
  switch (options.kind) {
    case ModelKind::seq2seq:
      return std::make_unique<Transformer>(scope, options, sizes.source, sizes.target, padding_id);
    case ModelKind::language_model:
      return std::make_unique<LanguageModel>(scope, options, sizes.target, padding_id);
    case ModelKind::masked_language_model:
      return std::make_unique<MaskedLanguageModel>(scope, options, sizes.target, padding_id);
    case ModelKind::classifier:
      return std::make_unique<Classifier>(scope, options, sizes.source, sizes.target, padding_id);
    case ModelKind::vision_transformer:
      return std::make_unique<VisionTransformer>(scope, options, sizes.image, sizes.target);
  }
  throw ValueError("make_network: unknown kind of model");
}

}  // namespace tapestry
