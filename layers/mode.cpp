#include "layers/mode.h"

#include <fmt/format.h>

#include "autograd/error.h"

namespace tapestry {

RandomStream Mode::dropout_stream(const std::string& path, double rate) const {
  if (is_training() && !random_.on() && rate != 0.0) {
    throw ValueError(
        fmt::format("dropout: rate is {} in a training pass without random numbers, expected "
                    "Mode::training(RandomStream(seed).named(\"dropout\").at(step))",
                    printable(rate)));
  }
  return random_.named(path);
}

}  // namespace tapestry
