// SPDX-License-Identifier: BSD-3-Clause
// Includes all headers, takes two optimizer steps, and fails if the loss does not fall.
#include <tapestry.h>

#include <cstdio>

#include "layers/basic_layers.h"

int main() {
  using namespace tapestry;
  Parameters parameters(DType::float32, 1);
  const Linear linear(Scope(parameters) / "linear", 3, 2);
  Adam adam(parameters.list(), {});
  double losses[2];
  for (double& value : losses) {
    parameters.zero_grad();
    Tape tape;
    const Tensor loss = mean(square(linear(Tensor::ones({4, 3})) - 1.0));
    tape.backward(loss);
    adam.step(0.01);
    value = loss.item();
  }
  std::printf("%g %g\n", losses[0], losses[1]);
  return own_header == 1 && losses[1] < losses[0] ? 0 : 1;
}
