// SPDX-License-Identifier: BSD-3-Clause
// A shared library for Python's ctypes: the derivative of mean(x^2) is 2 x.
#include <tapestry.h>

extern "C" double derivative_of_square(double x) {
  using namespace tapestry;
  Tensor variable = Tensor::full({1}, x, DType::float64);
  variable.set_requires_grad(true);
  Tape tape;
  tape.backward(mean(square(variable)));
  return variable.grad().item();
}
