#include "autograd/error.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>

#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

using namespace tapestry;

namespace {

/// Passes x on, and throws from its backward.
struct Failing {
  static constexpr const char* name = "failing";
  Tensor forward(const Tensor& x) { return x.viewed_as(x.shape()); }
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

TEST_CASE("there is no layer path outside layers") {
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

TEST_CASE("an exception restores the layer path") {
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
  x.require_gradient();
  Tape tape;
  Tensor y;
  {
    const LayerPath here(interned_path("encoder.norm"));
    y = apply(Failing{}, x);
  }
  CHECK_THROWS_WITH_AS(tape.backward(y, Tensor::zeros({2}, DType::float32)),
                       "encoder.norm: failing: dy has shape (2)", ShapeError);
  CHECK(current_layer_path().empty());
}

TEST_CASE("every thread has a layer path of its own") {
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
