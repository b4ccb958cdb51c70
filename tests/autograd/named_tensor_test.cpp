// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/named_tensor.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>

#include "autograd/error.h"
#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"
#include "tests/support/errors.h"

using namespace tapestry;
using namespace tapestry::test;

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

TEST_CASE("a path selects the tensor of that name and all tensors below it, by whole components") {
  using Indices = std::vector<std::size_t>;
  CHECK(below("encoder") == Indices{0, 1, 2, 3, 4});
  CHECK(below("encoder.") == Indices{0, 1, 2, 3, 4});
  CHECK(below("encoder.layers.1") == Indices{1});
  CHECK(below("encoder.norm.bias") == Indices{4});
  CHECK(below("head") == Indices{6});
  CHECK(below("") == Indices{0, 1, 2, 3, 4, 5, 6});
  CHECK(indices_below("freeze", "w", named({"w"})) == Indices{0});
}

TEST_CASE("the error for a path that selects nothing lists the closest existing names") {
  check_error<ValueError>("freeze:|`hed`|`head`|`encoder`|`encoder_norm`", [&] { below("hed."); });
  check_error<ValueError>("expected one of `encoder`, `encoder_norm`", [&] { below("enc"); });
  check_error<ValueError>("freeze:|`encoder.layer.0`|`encoder.layers`|`encoder.norm`",
                          [&] { below("encoder.layer.0"); });
  check_error<ValueError>(
      "expected one of `encoder.layers.0`, `encoder.layers.1`, `encoder.layers.10`",
      [&] { below("encoder.layers.2.weight"); });
  check_error<ValueError>("freeze:|`head.weight.x`|`head.weight`", [&] { below("head.weight.x"); });
  CHECK_THROWS_AS(below("."), ValueError);
  CHECK_THROWS_AS(below("encoder.."), ValueError);
}

TEST_CASE("the error for an unknown path lists the five closest names, if there are names") {
  const auto many = named({"a", "b", "c", "d", "e", "wide"});
  check_error<ValueError>("optimizer:|`wise`|`wide`|`a`|`b`|`c`|`d`",
                          [&] { indices_below("optimizer", "wise", many); });
  check_error<ValueError>("freeze:|`a`", [&] { indices_below("freeze", "a", {}); });
}

namespace {

/// The identity with a backward that throws.
struct FailingBackward {
  static constexpr const char* name = "failing";
  Tensor forward(const Tensor& x) { return x.detach(); }
  void backward(const Tensor& dy, Gradient) const {
    throw ShapeError("failing: dy has shape " + to_string(dy.shape()));
  }
};

std::string message_of_mismatch() {
  try {
    add(Tensor::zeros({2}, DType::float32), Tensor::zeros({3}, DType::float32));
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("the layer path is empty outside of layers") {
  CHECK(current_layer_path().empty());
  CHECK(message_of_mismatch().substr(0, 5) == "add: ");
}

TEST_CASE("the innermost layer path is current until it goes out of scope") {
  const std::string outer = "encoder";
  const std::string inner = "encoder.layers.0";
  const LayerPath outer_path(outer);
  {
    const LayerPath inner_path(inner);
    CHECK(current_layer_path() == "encoder.layers.0");
  }
  CHECK(current_layer_path() == "encoder");
}

TEST_CASE("errors inside a layer start with its path") {
  const std::string path = "encoder.layers.0.ff.linear1";
  const LayerPath here(path);
  CHECK(message_of_mismatch().find("encoder.layers.0.ff.linear1: add: shapes (2) and (3)") == 0);
}

TEST_CASE("an exception restores the previous layer path") {
  const std::string path = "decoder";
  try {
    const LayerPath here(path);
    throw ValueError("out of here");
  } catch (const ValueError&) {
    CHECK(current_layer_path().empty());
  }
}

TEST_CASE("an error during backward names the layer whose forward recorded the operation") {
  Tensor x = Tensor::zeros({2}, DType::float32);
  x.set_requires_grad(true);
  Tape tape;
  Tensor y;
  {
    const LayerPath here(interned_path("encoder.norm"));
    y = apply(FailingBackward{}, x);
  }
  check_error<ShapeError>("encoder.norm: failing:|(2)",
                          [&] { tape.backward(y, Tensor::zeros({2}, DType::float32)); });
  CHECK(current_layer_path().empty());
}

TEST_CASE("every thread has its own layer path") {
  const std::string path = "encoder";
  const LayerPath here(path);
  std::string found = "?";
  std::thread([&] { found = current_layer_path(); }).join();
  CHECK(found.empty());
}

TEST_CASE("equal layer paths are interned as one string") {
  const std::string* first = &interned_path("a.b");
  CHECK(first == &interned_path(std::string("a.") + "b"));
  CHECK(first != &interned_path("a.c"));
  CHECK(*first == "a.b");
}
