#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "autograd/kernels/memory.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"
#include "tests/optim/leaves.h"
#include "tests/support/threads.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

std::atomic<std::size_t> allocations = 0;

}  // namespace

// The whole test program counts its calls of operator new, so that nothing gets past the pool
// unseen.
void* operator new(std::size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("after warm-up a clipped step takes nothing from the system") {
  for (const std::size_t threads : {1, 2}) {
    const Threads count(threads);
    for (const OptimizerKind kind : optimizer_kinds) {
      const std::vector<NamedTensor> parameters{leaf("weight", {400, 101}, uneven(40400, 1)),
                                                leaf("bias", {101}, uneven(101, 2))};
      for (const NamedTensor& p : parameters) set_gradient(p, uneven(p.tensor.size(), 3));
      const auto optimizer = make_optimizer(eventful_options(kind), parameters);
      const auto step = [&] {
        optimizer->step(0.1, clip_factor(global_gradient_norm(parameters), 1.0));
      };
      step();
      step();

      const std::uint64_t blocks_before = kernels::memory_statistics().system_allocations;
      const std::size_t allocations_before = allocations;
      step();
      const std::size_t allocations_after = allocations;
      CHECK(allocations_after == allocations_before);
      CHECK(kernels::memory_statistics().system_allocations == blocks_before);
    }
  }
}
