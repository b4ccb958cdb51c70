#include "autograd/instruction_set.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/linear.h"
#include "autograd/random.h"
#include "autograd/tensor.h"
#include "tests/support/values.h"

using namespace tapestry;

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

TEST_CASE("the sets differ in their roundings, so that a choice has an effect") {
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

TEST_CASE("an unknown instruction set is refused with a list of the known ones") {
  const std::string before(kernels_in_use());
  try {
    use_kernels("sse9");
    FAIL("expected an error");
  } catch (const ValueError& error) {
    const std::string message = error.what();
    CHECK(message.starts_with(
        "use_kernels: found \"sse9\", expected auto or one that this build has: "));
    CHECK(message.find(std::string(compiled_kernels().front())) != std::string::npos);
  }
  CHECK(kernels_in_use() == before);
}
