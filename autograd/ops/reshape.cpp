#include "autograd/ops/reshape.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/operation.h"

namespace tapestry {
namespace {

struct Reshape {
  static constexpr const char* name = "reshape";
  Shape shape;

  Tensor forward(const Tensor& x) { return x.viewed_as(shape); }
  void backward(const Tensor& dy, Gradient dx) const { dx.add(dy.viewed_as(dx.shape())); }
};

/// "(4, ?)" for a shape in which an extent is to be inferred.
std::string with_question_marks(const Shape& shape) {
  std::vector<std::string> extents;
  for (const std::size_t extent : shape) {
    extents.push_back(extent == inferred ? "?" : std::to_string(extent));
  }
  return fmt::format("({})", fmt::join(extents, ", "));
}

[[noreturn]] void refuse(const Tensor& x, const Shape& shape, const std::string& expected) {
  throw ShapeError(fmt::format("{}: x has shape {}, {} elements, asked for as {}, expected {}",
                               Reshape::name, to_string(x.shape()), x.size(),
                               with_question_marks(shape), expected));
}

/// `shape` with its inferred extent, if it has one, worked out from the size of x.
Shape resolved(const Tensor& x, const Shape& shape) {
  const auto unknown = std::count(shape.begin(), shape.end(), inferred);
  if (unknown > 1) refuse(x, shape, "at most one inferred extent");
  if (unknown == 0) {
    if (shape.size() != x.size()) refuse(x, shape, "as many elements");
    return shape;
  }
  Shape result = shape;
  std::size_t& extent = *std::find(&result[0], &result[0] + result.rank(), inferred);
  extent = 1;
  const std::size_t others = result.size();
  if (others == 0 || x.size() % others != 0) {
    refuse(x, shape, fmt::format("a multiple of {} elements", others));
  }
  extent = x.size() / others;
  return result;
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  return apply(Reshape{resolved(x, shape)}, x);
}

}  // namespace tapestry
