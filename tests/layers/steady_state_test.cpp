#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cstdint>

#include "autograd/kernels/memory.h"
#include "autograd/tape.h"
#include "tests/layers/transformer_cases.h"
#include "tests/support/allocations.h"
#include "tests/support/threads.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

/// What the process has taken from the system so far.
struct Taken {
  std::uint64_t page_faults, pool_blocks, calls;

  static Taken now() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return {static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt),
            kernels::memory_statistics().system_allocations, calls_of_new()};
  }
};

/// Forward, loss, backward and a change of the parameters, with dropout drawn anew for each step.
void train(Model& model, const Ids& labels, std::uint64_t step) {
  model.parameters.clear_gradients();
  {
    const RandomStream random = RandomStream(1).named("dropout").at(step);
    Tape tape;
    const Tensor memory = model.transformer.encode(source, random);
    const Tensor decoded = model.transformer.decode(target, memory, source, random);
    tape.backward(model.transformer.loss(decoded, labels, {.ignored_id = padding_id}));
  }
  for (const NamedTensor& named : model.parameters.list()) {
    Tensor parameter = named.tensor;
    const auto gradient = parameter.gradient().values<float>();
    const auto values = parameter.mutable_values<float>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.01F * gradient[i];
  }
}

}  // namespace

TEST_CASE("after warm-up a step of a whole model takes nothing from the system") {
  const Ids labels{{8, 7, 2}, {4, 9, 2}, {5, 2, 0}};
  for (TransformerOptions options : every_choice()) {
    options.dropout = 0.1;
    for (const std::size_t threads : {1, 2}) {
      const Threads count(threads);
      Model model(options, DType::float32);
      model.parameters.gather();
      std::uint64_t step = 0;
      for (; step < 3; ++step) train(model, labels, step);

      // At least one of some steps takes nothing at all: the system may take pages away and give
      // them back at any time, and a thread that takes over work of the other, some room for it.
      bool nothing_taken = false;
      for (; step < 8; ++step) {
        const Taken before = Taken::now();
        train(model, labels, step);
        const Taken after = Taken::now();
        CHECK(after.calls == before.calls);
        nothing_taken = nothing_taken || (after.page_faults == before.page_faults &&
                                          after.pool_blocks == before.pool_blocks);
      }
      CHECK(nothing_taken);
    }
  }
}
