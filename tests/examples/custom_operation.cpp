// SPDX-License-Identifier: BSD-3-Clause
// Checks the gradients of a custom operation, swish.h, against finite differences.
#include <tapestry/autograd/gradcheck/gradcheck.h>

#include <cstdio>

#include "swish.h"

int main() {
  using tapestry::DType;
  using tapestry::Tensor;
  const Tensor x = Tensor::from({2, 3}, {-2.0, -0.5, 0.0, 0.3, 1.0, 4.0}, DType::float64)
                       .set_requires_grad(true);
  const Tensor beta = Tensor::scalar(1.5, DType::float64).set_requires_grad(true);

  const tapestry::GradcheckReport report =
      tapestry::gradcheck([&] { return example::swish(x, beta); }, {{"x", x}, {"beta", beta}});
  std::fputs(to_string(report).c_str(), stdout);
  return report.worst_relative_error() < 1e-6 ? 0 : 1;
}
