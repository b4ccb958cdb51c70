// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <utility>

#include "autograd/gradcheck/gradcheck.h"
#include "autograd/operation.h"

namespace tapestry::test {

using Spoil = std::function<double(std::size_t, double)>;

/// The identity with a wrong gradient: element g at index i becomes spoil(i, g).
struct Faulty {
  static constexpr const char* name = "faulty";
  Spoil spoil;

  Tensor forward(const Tensor& x) { return x.detach(); }
  void backward(const Tensor& dy, Gradient dx) const {
    const auto g = dy.values<double>();
    const kernels::Target<double> out = dx.target<double>();
    for (std::size_t i = 0; i < g.size(); ++i) out.put(i, spoil(i, g[i]));
  }
};

inline Tensor faulty(const Tensor& x, Spoil spoil) { return apply(Faulty{std::move(spoil)}, x); }

inline Tensor times(const Tensor& x, double factor) {
  return faulty(x, [factor](std::size_t, double g) { return factor * g; });
}

/// The row that gradcheck reports for a function of x.
inline GradcheckRow row_of(const std::function<Tensor()>& function, const Tensor& x,
                           const GradcheckOptions& options = {}) {
  return gradcheck(function, {{"x", x}}, options).rows.at(0);
}

}  // namespace tapestry::test
