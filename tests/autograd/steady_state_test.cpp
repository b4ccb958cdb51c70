// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/instruction_set.h"
#include "autograd/kernels/memory.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/random.h"
#include "autograd/tape.h"
#include "autograd/tensor.h"
#include "tests/support/allocations.h"
#include "tests/support/gradients.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// Forward, backward and a parameter update of a small model.
void step(Tensor& weight, Tensor& bias, const Tensor& x) {
  {
    Tape tape;
    const Tensor y = softmax(gelu(x * weight + bias));
    tape.backward(square(y), x);
  }
  for (Tensor* parameter : {&weight, &bias}) {
    const auto gradient = parameter->grad().values<double>();
    const auto values = parameter->mutable_values<double>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.1 * gradient[i];
    parameter->zero_grad();
  }
}

}  // namespace

// In a guarded run, blocks do not come from the pool.
TEST_CASE("after warm-up, a step on the same shapes allocates no memory from the system" *
          doctest::skip(is_guarded_run())) {
  for (const std::size_t threads : {1, 2}) {
    const Threads count(threads);
    Tensor weight = random_leaf({100, 301}, 1);
    Tensor bias = random_leaf({301}, 2);
    const Tensor x = random_leaf({100, 301}, 3).detach().to(DType::float64);
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

TEST_CASE("steps are bit-identical on any number of threads") {
  CHECK(same_on_any_number_of_threads([] {
    Tensor weight = random_leaf({100, 301}, 1);
    Tensor bias = random_leaf({301}, 2);
    const Tensor x = random_leaf({100, 301}, 3).detach().to(DType::float64);
    for (int repeat = 0; repeat < 3; ++repeat) step(weight, bias, x);
    return std::pair(values_of(weight), values_of(bias));
  }));
}

namespace {

/// Restores the kernels that were in use.
class KernelsBefore {
 public:
  KernelsBefore() : name_(kernels_in_use()) {}
  ~KernelsBefore() { use_kernels(name_); }
  KernelsBefore(const KernelsBefore&) = delete;
  KernelsBefore& operator=(const KernelsBefore&) = delete;

 private:
  std::string name_;
};

}  // namespace

TEST_CASE("each set of kernels that the processor can execute can be used") {
  const KernelsBefore before;
  const RandomStream random(7);
  const Tensor x = random_normal({33, 65}, random.at(0)), w = random_normal({47, 65}, random.at(1));
  std::vector<double> first;
  for (const std::string_view name : compiled_kernels()) {
    CAPTURE(name);
    if (!processor_can_execute(name)) continue;
    use_kernels(name);
    CHECK(kernels_in_use() == name);
    const std::vector<double> y = test::values_of(gelu(linear(x, w)));
    if (first.empty()) first = y;
    REQUIRE(y.size() == first.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      CHECK(y[i] == doctest::Approx(first[i]).epsilon(1e-5));
    }
  }
}

TEST_CASE("the choice of kernels has an effect, because the sets round differently") {
  const KernelsBefore before;
  const RandomStream random(7);
  const Tensor x = random_normal({33, 65}, random.at(0)), w = random_normal({47, 65}, random.at(1));
  if (!processor_can_execute("avx2")) return;
  if (compiled_kernels().size() == 1) return;
  use_kernels("baseline");
  const std::vector<double> unfused = test::values_of(gelu(linear(x, w)));
  use_kernels("avx2");
  CHECK(test::values_of(gelu(linear(x, w))) != unfused);
}

TEST_CASE("the error for an unknown instruction set lists the known sets") {
  const std::string before(kernels_in_use());
  try {
    use_kernels("sse9");
    FAIL("expected an error");
  } catch (const ValueError& error) {
    const std::string message = error.what();
    CHECK(
        message.starts_with("use_kernels: found \"sse9\", expected auto or a set of this build: "));
    CHECK(message.find(std::string(compiled_kernels().front())) != std::string::npos);
  }
  CHECK(kernels_in_use() == before);
}
