#include "autograd/named_tensor.h"

#include <doctest/doctest.h>

#include "autograd/error.h"

using namespace tapestry;

namespace {

std::vector<NamedTensor> named(const std::vector<std::string>& names) {
  std::vector<NamedTensor> tensors;
  for (const std::string& name : names) tensors.push_back({name, Tensor::scalar(0.0)});
  return tensors;
}

const std::vector<NamedTensor> model =
    named({"encoder.layers.0.weight", "encoder.layers.1.weight", "encoder.layers.10.weight",
           "encoder.norm.weight", "encoder.norm.bias", "encoder_norm.weight", "head.weight"});

std::vector<std::size_t> below(const char* path) { return indices_below("freeze", path, model); }

}  // namespace

TEST_CASE("a path selects the tensor of that name and those below it, by whole components") {
  using Indices = std::vector<std::size_t>;
  CHECK(below("encoder") == Indices{0, 1, 2, 3, 4});
  CHECK(below("encoder.") == Indices{0, 1, 2, 3, 4});
  CHECK(below("encoder.layers.1") == Indices{1});
  CHECK(below("encoder.norm.bias") == Indices{4});
  CHECK(below("head") == Indices{6});
  CHECK(below("") == Indices{0, 1, 2, 3, 4, 5, 6});
  CHECK(indices_below("freeze", "w", named({"w"})) == Indices{0});
}

TEST_CASE("a path that selects nothing is refused with the closest existing names") {
  CHECK_THROWS_WITH_AS(below("hed."),
                       "freeze: no parameter is named `hed` or below it, expected one of `head`, "
                       "`encoder`, `encoder_norm`",
                       ValueError);
  CHECK_THROWS_WITH_AS(below("enc"), doctest::Contains("expected one of `encoder`, `encoder_norm`"),
                       ValueError);
  CHECK_THROWS_WITH_AS(below("encoder.layer.0"),
                       "freeze: no parameter is named `encoder.layer.0` or below it, expected one "
                       "of `encoder.layers`, `encoder.norm`",
                       ValueError);
  CHECK_THROWS_WITH_AS(below("encoder.layers.2.weight"),
                       doctest::Contains("expected one of `encoder.layers.0`, `encoder.layers.1`, "
                                         "`encoder.layers.10`"),
                       ValueError);
  CHECK_THROWS_WITH_AS(below("head.weight.x"),
                       "freeze: no parameter is named `head.weight.x` or below it, expected "
                       "`head.weight`",
                       ValueError);
  CHECK_THROWS_AS(below("."), ValueError);
  CHECK_THROWS_AS(below("encoder.."), ValueError);
}

TEST_CASE("a refused path is answered with the five closest names, if there are any") {
  const auto many = named({"a", "b", "c", "d", "e", "wide"});
  CHECK_THROWS_WITH_AS(indices_below("optimizer", "wise", many),
                       "optimizer: no parameter is named `wise` or below it, expected one of "
                       "`wide`, `a`, `b`, `c`, `d`, ...",
                       ValueError);
  CHECK_THROWS_WITH_AS(indices_below("freeze", "a", {}),
                       "freeze: there are no parameters, expected `a`", ValueError);
}
