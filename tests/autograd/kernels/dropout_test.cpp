#include "autograd/kernels/dropout.h"

#include <doctest/doctest.h>

#include <vector>

#include "autograd/kernels/philox.h"

using namespace tapestry::kernels;

TEST_CASE("the dropout kernel draws by the place in the whole, wherever its part begins") {
  const std::size_t n = 300;
  const std::vector<double> x(n, 1.0);
  std::vector<double> whole(n, -1.0);
  dropout(5, 0, n, 0.5, x.data(), Target<double>{whole.data()});
  for (const std::size_t first : {philox_group, 3 * philox_group}) {
    std::vector<double> part(n - first, -1.0);
    dropout(5, first, n - first, 0.5, x.data() + first, Target<double>{part.data()});
    CHECK(part ==
          std::vector<double>(whole.begin() + static_cast<std::ptrdiff_t>(first), whole.end()));
  }
}

TEST_CASE("the dropout kernel works in place and adds where it is told to") {
  std::vector<float> x(100, 1.0F);
  std::vector<float> sum(100, 10.0F);
  dropout(5, 0, x.size(), 0.5, x.data(), Target<float>{sum.data(), true});
  dropout(5, 0, x.size(), 0.5, x.data(), Target<float>{x.data()});
  for (std::size_t i = 0; i < x.size(); ++i) {
    CHECK((x[i] == 0.0F || x[i] == 2.0F));
    CHECK(sum[i] == 10.0F + x[i]);
  }
}
