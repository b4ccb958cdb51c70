#include "layers/make_network.h"

#include "autograd/error.h"
#include "layers/classifier.h"
#include "layers/language_model.h"
#include "layers/masked_language_model.h"
#include "layers/transformer.h"
#include "layers/vision_transformer.h"

namespace tapestry {

std::unique_ptr<Network> make_network(Parameters& parameters, const TransformerOptions& options,
                                      const NetworkSizes& sizes, std::int32_t padding_id) {
  switch (options.kind) {
    case ModelKind::seq2seq:
      return std::make_unique<Transformer>(parameters, options, sizes.source, sizes.target,
                                           padding_id);
    case ModelKind::language_model:
      return std::make_unique<LanguageModel>(parameters, options, sizes.target, padding_id);
    case ModelKind::masked_language_model:
      return std::make_unique<MaskedLanguageModel>(parameters, options, sizes.target, padding_id);
    case ModelKind::classifier:
      return std::make_unique<Classifier>(parameters, options, sizes.source, sizes.target,
                                          padding_id);
    case ModelKind::vision_transformer:
      return std::make_unique<VisionTransformer>(parameters, options, sizes.image, sizes.target);
  }
  throw ValueError("make_network: unknown kind of model");
}

}  // namespace tapestry
