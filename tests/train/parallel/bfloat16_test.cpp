#include "train/parallel/bfloat16.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace tapestry {
namespace {

TEST_CASE("values of 8 significant bits are values of bfloat16") {
  for (const float x : {0.0f, 1.0f, -1.5f, 255.0f, 0x1.fep-126f, 0x1p-133f, 0x1.fep127f}) {
    CHECK(rounded_to_bfloat16(x) == x);
    CHECK(rounded_to_bfloat16(-x) == -x);
  }
  CHECK(to_bfloat16(1.0f) == 0x3f80);
  CHECK(to_bfloat16(-2.0f) == 0xc000);
  CHECK(std::signbit(rounded_to_bfloat16(-0.0f)));
}

TEST_CASE("other values are rounded to the closest one, and to the even one between two") {
  CHECK(rounded_to_bfloat16(0x1.004p0f) == 0x1.00p0f);
  CHECK(rounded_to_bfloat16(0x1.01p0f) == 0x1.00p0f);
  CHECK(rounded_to_bfloat16(0x1.010002p0f) == 0x1.02p0f);
  CHECK(rounded_to_bfloat16(0x1.03p0f) == 0x1.04p0f);
  CHECK(rounded_to_bfloat16(-0x1.03p0f) == -0x1.04p0f);
  CHECK(rounded_to_bfloat16(0x1.ffp0f) == 0x1p1f);
  CHECK(rounded_to_bfloat16(0x1.03p0) == 0x1.04p0);  // of double
}

TEST_CASE("infinity and NaN are kept, and values that are too large become infinity") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(rounded_to_bfloat16(infinity) == infinity);
  CHECK(rounded_to_bfloat16(-infinity) == -infinity);
  CHECK(rounded_to_bfloat16(std::numeric_limits<float>::max()) == infinity);
  CHECK(std::isnan(rounded_to_bfloat16(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(rounded_to_bfloat16(std::bit_cast<float>(0x7f800001U))));
}

}  // namespace
}  // namespace tapestry
