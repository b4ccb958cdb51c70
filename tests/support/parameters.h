// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "autograd/gradcheck/gradcheck.h"
#include "autograd/random.h"
#include "layers/parameters.h"
#include "tests/support/threads.h"

/// Helpers of the layer tests.
namespace tapestry::test {

/// The parameter of this name, which must exist.
inline Tensor parameter(const Parameters& parameters, const std::string& name) {
  const NamedTensor* found = parameters.find(name);
  REQUIRE_MESSAGE(found != nullptr, "there is no parameter " << name);
  return found->tensor;
}

/// Sets the values of a tensor, in row-major order.
inline void set_values(Tensor tensor, const std::vector<double>& values) {
  REQUIRE(tensor.size() == values.size());
  dispatch(tensor.dtype(), [&]<class T>() {
    std::ranges::transform(values, tensor.mutable_values<T>().begin(),
                           [](double value) { return static_cast<T>(value); });
  });
}

inline void set_values(const Parameters& parameters, const std::string& name,
                       std::initializer_list<double> values) {
  set_values(parameter(parameters, name), std::vector<double>(values));
}

/// Moves every float64 value by up to 0.5, so that no bias is 0 and no norm's weight is 1.
inline void perturb(const Parameters& parameters) {
  for (NamedTensor p : parameters) {
    const RandomStream random = RandomStream(7).named(p.name);
    std::uint64_t counter = 0;
    for (double& value : p.tensor.mutable_values<double>())
      value += random.uniform(counter++) - 0.5;
  }
}

/// "name (shape)" of each parameter, in order of creation.
inline std::vector<std::string> listing(const Parameters& parameters) {
  std::vector<std::string> lines;
  for (const NamedTensor& p : parameters)
    lines.push_back(p.name + " " + to_string(p.tensor.shape()));
  return lines;
}

/// Checks the gradients of all parameters and of `inputs` against finite differences, and that the
/// output depends on each of them.
inline void check_gradients(const std::function<Tensor()>& function, const Parameters& parameters,
                            std::initializer_list<Tensor> inputs,
                            const GradcheckOptions& options = {}) {
  // With thousands of calls on tiny shapes, waking threads would take most of the time.
  const Threads one(1);
  std::vector<NamedTensor> tensors = parameters.list();
  for (const Tensor& input : inputs) tensors.push_back({"an input", input});
  for (const GradcheckRow& row : gradcheck(function, tensors, options).rows) {
    CAPTURE(row.name);
    CAPTURE(row.worst_coordinate);
    CAPTURE(row.analytic);
    CAPTURE(row.numeric);
    if (row.name.ends_with("k_proj.bias") && row.gradient_norm < 1e-12) {
      // The bias adds one number to all scores of a query, which softmax cancels.
      CHECK(std::abs(row.numeric) < 1e-8);
      continue;
    }
    CHECK(row.worst_relative_error < 1e-6);
    CHECK(row.gradient_norm > 1e-4);
  }
}

}  // namespace tapestry::test
