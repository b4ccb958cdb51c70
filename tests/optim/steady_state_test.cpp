#include <doctest/doctest.h>

#include "autograd/kernels/memory.h"
#include "optim/optimizer.h"
#include "tests/optim/leaves.h"
#include "tests/support/allocations.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/threads.h"

using namespace tapestry;
using namespace tapestry::test;

// In a guarded run blocks do not come from the pool.
TEST_CASE("after warm-up a clipped step allocates nothing from the system" *
          doctest::skip(is_guarded_run())) {
  for (const std::size_t threads : {1, 2}) {
    const Threads count(threads);
    for (const OptimizerKind kind : optimizer_kinds) {
      const std::vector<NamedTensor> parameters{leaf("weight", {400, 101}, uneven(40400, 1)),
                                                leaf("bias", {101}, uneven(101, 2))};
      for (const NamedTensor& p : parameters) set_gradient(p, uneven(p.tensor.size(), 3));
      const auto optimizer = make_optimizer(eventful_options(kind), parameters,
                                            {{.path = "bias", .learning_rate_factor = 2.0}});
      const auto step = [&] {
        optimizer->step(0.1, clip_factor(global_gradient_norm(parameters), 1.0));
      };
      step();
      step();

      const std::uint64_t blocks_before = kernels::memory_statistics().system_allocations;
      const std::uint64_t calls_before = calls_of_new();
      step();
      const std::uint64_t calls_after = calls_of_new();
      CHECK(calls_after == calls_before);
      CHECK(kernels::memory_statistics().system_allocations == blocks_before);
    }
  }
}
