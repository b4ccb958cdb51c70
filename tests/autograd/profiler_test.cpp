// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/profiler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "autograd/operation.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/tape.h"
#include "tests/support/threads.h"

using namespace tapestry;
using kernels::count_product;

namespace {

const ProfileRow* find(const Profile& profile, std::string_view name, Phase phase) {
  const auto found = std::ranges::find_if(
      profile.rows, [&](const ProfileRow& row) { return row.name == name && row.phase == phase; });
  return found == profile.rows.end() ? nullptr : &*found;
}

const ProfileRow& row(const Profile& profile, std::string_view name, Phase phase) {
  const ProfileRow* found = find(profile, name, phase);
  REQUIRE(found != nullptr);
  return *found;
}

void check_row(const Profile& profile, std::string_view name, Phase phase, std::uint64_t calls,
               double flops, double bytes) {
  CAPTURE(name);
  const ProfileRow& found = row(profile, name, phase);
  CHECK(found.calls == calls);
  CHECK(found.flops == flops);
  CHECK(found.bytes == bytes);
}

Tensor ones(const Shape& shape, DType dtype = DType::float64) {
  return Tensor::full(shape, 1.0, dtype);
}

/// An operation whose forward throws.
struct FailingForward {
  static constexpr const char* name = "failing";
  Tensor forward(const Tensor&) { throw std::runtime_error("no"); }
  void backward(const Tensor&, Gradient) const {}
};

}  // namespace

TEST_CASE("an operation has a row for its forward pass and a row for its backward pass") {
  const Tensor x = ones({2, 3});
  const Tensor weight = ones({4, 3}).set_requires_grad(true);
  const Tensor bias = ones({4}).set_requires_grad(true);
  const Profiler profiler;
  {
    Tape tape;
    const Tensor y = linear(x, weight, bias);
    tape.backward(y, ones({2, 4}));
  }
  const Profile profile = profiler.profile();
  // 2 * 2 * 3 * 4 operations. Bytes of x, weight, bias and y.
  check_row(profile, "linear", Phase::forward, 1, 48, 8 * (6 + 12 + 4 + 8));
  // Only dweight needs a product. Bytes of dy, weight, bias, dweight and dbias.
  check_row(profile, "linear", Phase::backward, 1, 48, 8 * (8 + 2 * (12 + 4)));
  CHECK(find(profile, "linear", Phase::inference) == nullptr);
}

TEST_CASE("calls under a tape are in phase forward, recorded or not; other calls are inference") {
  const Tensor x = ones({3}, DType::float32);
  const Profiler profiler;
  scale(x, 2.0);
  scale(x, 2.0);
  {
    const Tape tape;
    scale(x, 2.0);
  }
  check_row(profiler.profile(), "scale", Phase::inference, 2, 0, 2 * 4 * (3 + 3));
  check_row(profiler.profile(), "scale", Phase::forward, 1, 0, 4 * (3 + 3));
}

TEST_CASE("the profiler counts all tensors of a list of inputs") {
  const Profiler profiler;
  const Tensor a = ones({2}).set_requires_grad(true);
  {
    Tape tape;
    tape.backward(sum(concat({a, ones({3})}, 0)));
  }
  check_row(profiler.profile(), "concat", Phase::forward, 1, 0, 8 * (2 + 3 + 5));
  check_row(profiler.profile(), "concat", Phase::backward, 1, 0, 8 * (5 + 2 * 2));
}

TEST_CASE("the profiler counts products of all threads") {
  const Tensor x = ones({300, 64});
  const Tensor weight = ones({64, 64});
  const Tensor heads = ones({2, 10, 4 * 16});
  for (const std::size_t threads : {1, 4}) {
    const test::Threads number(threads);
    const Profiler profiler;
    linear(x, weight);
    scaled_dot_product_attention(heads, heads, heads, {.num_heads = 4});
    const Profile profile = profiler.profile();
    CHECK(row(profile, "linear", Phase::inference).flops == 2.0 * 300 * 64 * 64);
    // Scores and weighted values, of 2 * 4 heads.
    CHECK(row(profile, "scaled_dot_product_attention", Phase::inference).flops ==
          2.0 * 2 * 8 * 10 * 10 * 16);
  }
}

TEST_CASE("the profiler subtracts the time of inner scopes from a scope") {
  const Profiler profiler;
  {
    const ProfileScope outer("outer", Phase::other);
    count_product(1, 1, 1);
    for (int i = 0; i < 2; ++i) {
      const ProfileScope inner("inner", Phase::other);
      count_product(1, 1, 10);
      const ProfileScope innermost("innermost", Phase::forward);
      count_product(1, 1, 100);
    }
    count_product(1, 1, 2);
  }
  count_product(1, 1, 1000);
  const Profile profile = profiler.profile();
  check_row(profile, "outer", Phase::other, 1, 2 * 3, 0);
  check_row(profile, "inner", Phase::other, 2, 2 * 20, 0);
  check_row(profile, "innermost", Phase::forward, 2, 2 * 200, 0);
  check_row(profile, "everything else", Phase::other, 0, 0, 0);
}

TEST_CASE("the seconds of a scope are the sum over all its calls, without nested scopes") {
  using namespace std::chrono_literals;
  const Profiler profiler;
  for (int call = 0; call < 4; ++call) {
    const ProfileScope outer("outer", Phase::other);
    std::this_thread::sleep_for(2ms);
    for (int i = 0; i < 2; ++i) {
      const ProfileScope inner("inner", Phase::other);
      std::this_thread::sleep_for(3ms);
    }
  }
  std::this_thread::sleep_for(4ms);
  const Profile profile = profiler.profile();
  const double outer = row(profile, "outer", Phase::other).seconds;
  const double inner = row(profile, "inner", Phase::other).seconds;
  const double rest = row(profile, "everything else", Phase::other).seconds;
  CHECK(outer >= 4 * 0.002);
  CHECK(inner >= 8 * 0.003);
  CHECK(rest >= 0.004);
  CHECK(outer + inner + rest == doctest::Approx(profile.seconds));
}

TEST_CASE("the rows are sorted by time and add up to the total time") {
  const Profiler profiler;
  const Tensor x = ones({50, 50});
  for (int i = 0; i < 20; ++i) scale(linear(x, x), 0.5);
  const Profile profile = profiler.profile();
  double seconds = 0.0;
  for (const ProfileRow& each : profile.rows) {
    CHECK(each.seconds >= 0.0);
    seconds += each.seconds;
  }
  CHECK(seconds == doctest::Approx(profile.seconds).epsilon(1e-9));
  CHECK(std::ranges::is_sorted(profile.rows, std::greater{}, &ProfileRow::seconds));
}

TEST_CASE("an operation that throws has a row, and later operations are profiled as before") {
  const Profiler profiler;
  {
    const ProfileScope outer("outer", Phase::other);
    CHECK_THROWS_AS(apply(FailingForward{}, ones({1})), std::runtime_error);
    count_product(1, 1, 1);
  }
  CHECK(row(profiler.profile(), "failing", Phase::inference).calls == 1);
  CHECK(row(profiler.profile(), "outer", Phase::other).flops == 2);
}

TEST_CASE("without a Profiler a ProfileScope is false and records nothing") {
  scale(ones({1}), 2.0);
  {
    const ProfileScope scope("before", Phase::other);
    CHECK_FALSE(scope);
    CHECK(execution_context().profiler == nullptr);
  }
  const Profiler profiler;
  CHECK(execution_context().profiler == &profiler);
  const Profile profile = profiler.profile();
  REQUIRE(profile.rows.size() == 1);
  CHECK(profile.rows[0].name == "everything else");
  CHECK(profile.rows[0].seconds == profile.seconds);
}

TEST_CASE("a profiler records nothing while a nested profiler is active") {
  const Profiler outer;
  {
    const Profiler inner;
    scale(ones({1}), 2.0);
    CHECK(row(inner.profile(), "scale", Phase::inference).calls == 1);
    CHECK(find(outer.profile(), "scale", Phase::inference) == nullptr);
  }
  scale(ones({1}), 2.0);
  CHECK(row(outer.profile(), "scale", Phase::inference).calls == 1);
}

TEST_CASE("operations of other threads have no rows in a profile") {
  const Profiler profiler;
  std::thread([] { scale(ones({1}), 2.0); }).join();
  CHECK(profiler.profile().rows.size() == 1);
}

namespace {

const Profile example{.seconds = 4.0,
                      .rows = {{.name = "linear",
                                .phase = Phase::backward,
                                .calls = 1234,
                                .seconds = 2.0,
                                .flops = 250e9,
                                .bytes = 30e9},
                               {.name = "scaled_dot_product_attention",
                                .phase = Phase::inference,
                                .calls = 7,
                                .seconds = 1.0,
                                .flops = 50e9,
                                .bytes = 0.5e9},
                               {.name = "linear",
                                .phase = Phase::forward,
                                .calls = 1234,
                                .seconds = 0.75,
                                .flops = 100e9,
                                .bytes = 12e6},
                               {.name = "everything else",
                                .phase = Phase::other,
                                .calls = 0,
                                .seconds = 0.25,
                                .flops = 0.0,
                                .bytes = 0.0}}};

}  // namespace

TEST_CASE("a profile is a table with shares, speeds and sums, and dashes for missing figures") {
  CHECK(to_string(example) ==
        "4.000 seconds by operation; each row excludes the time of nested rows\n"
        "name                         phase         calls     seconds   share   GFLOP/s         GB"
        "     GB/s\n"
        "linear                       backward       1234       2.000  50.0 %     125.0     30.000"
        "     15.0\n"
        "scaled_dot_product_attention inference         7       1.000  25.0 %      50.0      0.500"
        "      0.5\n"
        "linear                       forward        1234       0.750  18.8 %     133.3      0.012"
        "      0.0\n"
        "everything else              other             -       0.250   6.2 %         -          -"
        "        -\n"
        "total  forward 18.8 %  backward 50.0 %  inference 25.0 %  other 6.2 %  GFLOP/s 100.0\n"
        "GFLOP/s: matrix products; GB: by shapes, each input and output once, shared or not\n");
}

TEST_CASE("a profile of 0 seconds has no shares") {
  const std::string text = to_string({.seconds = 0.0, .rows = {example.rows.back()}});
  CHECK(text.find("other 0.0 %  GFLOP/s -\n") != std::string::npos);
}
