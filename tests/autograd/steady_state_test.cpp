#include <doctest/doctest.h>

#include "autograd/kernels/memory.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/support/allocations.h"
#include "tests/support/gradients.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// Forward, backward and a change of the parameters of a small model.
void step(Tensor& weight, Tensor& bias, const Tensor& x) {
  {
    Tape tape;
    const Tensor y = softmax(gelu(x * weight + bias));
    tape.backward(square(y), x);
  }
  for (Tensor* parameter : {&weight, &bias}) {
    const auto gradient = parameter->gradient().values<double>();
    const auto values = parameter->mutable_values<double>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.1 * gradient[i];
    parameter->clear_gradient();
  }
}

}  // namespace

// In a guarded run blocks do not come from the pool.
TEST_CASE("after warm-up a step on the same shapes allocates nothing from the system" *
          doctest::skip(is_guarded_run())) {
  for (const std::size_t threads : {1, 2}) {
    const Threads count(threads);
    Tensor weight = random_leaf({100, 301}, 1);
    Tensor bias = random_leaf({301}, 2);
    const Tensor x = random_leaf({100, 301}, 3).copied(DType::float64);
    for (int warm_up = 0; warm_up < 2; ++warm_up) step(weight, bias, x);

    const kernels::MemoryStatistics before = kernels::memory_statistics();
    const std::uint64_t calls_before = calls_of_new();
    for (int repeat = 0; repeat < 3; ++repeat) step(weight, bias, x);
    const std::uint64_t calls_after = calls_of_new();
    const kernels::MemoryStatistics after = kernels::memory_statistics();

    CHECK(after.system_allocations == before.system_allocations);
    CHECK(after.bytes_reserved == before.bytes_reserved);
    CHECK(after.bytes_in_use == before.bytes_in_use);
    CHECK(calls_after == calls_before);
  }
}

TEST_CASE("steps give the same bits on any number of threads") {
  CHECK(same_on_any_number_of_threads([] {
    Tensor weight = random_leaf({100, 301}, 1);
    Tensor bias = random_leaf({301}, 2);
    const Tensor x = random_leaf({100, 301}, 3).copied(DType::float64);
    for (int repeat = 0; repeat < 3; ++repeat) step(weight, bias, x);
    return std::pair(values_of(weight), values_of(bias));
  }));
}
