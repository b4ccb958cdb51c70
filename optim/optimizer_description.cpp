#include "optim/optimizer_description.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/error.h"

namespace tapestry {

// Each function is defined in the .cpp file of the optimizer.
const OptimizerDescription& describe_sgd();
const OptimizerDescription& describe_adam();
const OptimizerDescription& describe_adamw();

const OptimizerDescription& describe(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd:
      return describe_sgd();
    case OptimizerKind::adam:
      return describe_adam();
    case OptimizerKind::adamw:
      return describe_adamw();
  }
  throw ValueError(fmt::format("optimizer: kind is {}, expected a value of OptimizerKind",
                               static_cast<int>(kind)));
}

bool OptimizerDescription::uses(std::string_view option) const {
  return std::ranges::find(options, option) != options.end();
}

}  // namespace tapestry
