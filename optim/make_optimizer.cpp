#include "optim/make_optimizer.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "optim/adam.h"
#include "optim/sgd.h"

namespace tapestry {

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<const NamedTensor> parameters) {
  switch (options.kind) {
    case OptimizerKind::sgd:
      return std::make_unique<Sgd>(parameters, options);
    case OptimizerKind::adam:
      return std::make_unique<Adam>(parameters, options);
    case OptimizerKind::adamw:
      return std::make_unique<AdamW>(parameters, options);
  }
  throw ValueError(fmt::format("optimizer: kind is {}, expected sgd, adam or adamw",
                               static_cast<int>(options.kind)));
}

}  // namespace tapestry
