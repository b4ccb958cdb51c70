#include "autograd/ops/detail/destination.h"

#include <doctest/doctest.h>

#include <utility>

using namespace tapestry;

TEST_CASE("a number is left at its destination, by a moved one too, and nowhere by a copy") {
  double place = 1.0;
  Destination<double> first(&place);
  const Destination<double> copy(first);
  copy.put(2.0);
  CHECK(place == 1.0);
  const Destination<double> moved(std::move(first));
  moved.put(3.0);
  CHECK(place == 3.0);
  Destination<double>(nullptr).put(4.0);
  CHECK(place == 3.0);
}
