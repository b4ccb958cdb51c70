#include "train/properties/properties.h"

namespace tapestry {

std::span<const Property> properties() {
  static constexpr Property all[] = {
      {"causality", "an output depends on no later input and on no padding", causality},
      {"padding", "more padding changes nothing", padding},
      {"permutation", "sentences in another order have the same outputs", permutation},
      {"threads", "any number of threads gives the same bits", threads},
      {"halves", "two half batches have the gradients of the whole", halves},
      {"twice", "a step done again has the same bits, and gradients add up", backward_twice},
      {"precision", "float32 agrees with float64", precision},
      {"first loss", "before training, the loss is near ln(vocabulary)", first_loss},
      {"by heart", "a few sentences can be learned by heart", by_heart},
      {"reached", "every parameter has a gradient", reached},
  };
  return all;
}

}  // namespace tapestry
