// SPDX-License-Identifier: BSD-3-Clause
// Fits y = x w + b to noisy points of a known line by gradient descent: the whole training loop in
// terms of tensors, a tape and a loss.

#include <tapestry/autograd/ops/elementwise.h>
#include <tapestry/autograd/ops/losses.h>
#include <tapestry/autograd/random.h>
#include <tapestry/autograd/tape.h>

#include <cmath>
#include <cstdio>

using tapestry::DType;
using tapestry::Tensor;

namespace {

constexpr double true_slope = 3.0;
constexpr double true_offset = -1.0;

/// The tensor of n values f(0), f(1), ...
template <class F>
Tensor filled(std::size_t n, const F& f) {
  Tensor result = Tensor::empty({n}, DType::float32);
  std::size_t i = 0;
  for (float& value : result.mutable_values<float>()) value = static_cast<float>(f(i++));
  return result;
}

void descend(Tensor& parameter, float rate) {
  parameter.mutable_values<float>()[0] -= rate * parameter.grad().values<float>()[0];
  parameter.zero_grad();
}

}  // namespace

int main() {
  const tapestry::RandomStream noise = tapestry::RandomStream(1).named("noise");
  const std::size_t points = 200;
  const auto place = [&](std::size_t i) { return 2.0 * static_cast<double>(i) / points - 1.0; };
  const Tensor x = filled(points, place);
  const Tensor y = filled(points, [&](std::size_t i) {
    return true_slope * place(i) + true_offset + 0.1 * noise.normal(i);
  });

  Tensor slope = Tensor::scalar(0.0, DType::float32).set_requires_grad(true);
  Tensor offset = Tensor::scalar(0.0, DType::float32).set_requires_grad(true);
  for (int step = 0; step < 200; ++step) {
    tapestry::Tape tape;
    const Tensor loss = mean_squared_error(x * slope + offset, y);
    tape.backward(loss);
    descend(slope, 0.2F);
    descend(offset, 0.2F);
    if (step % 50 == 0) std::printf("step %3d  loss %.4f\n", step, loss.item());
  }
  std::printf("y = %.3f x + %.3f\n", slope.item(), offset.item());

  const bool found =
      std::abs(slope.item() - true_slope) < 0.05 && std::abs(offset.item() - true_offset) < 0.05;
  return found ? 0 : 1;
}
