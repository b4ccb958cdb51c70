#include "layers/positions.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/layer_path.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape_ops.h"

namespace tapestry {
namespace {

double sinusoidal_position(std::size_t pos, std::size_t j, std::size_t d_model) {
  const auto even = static_cast<double>(j - j % 2);
  const double angle =
      static_cast<double>(pos) / std::pow(10000.0, even / static_cast<double>(d_model));
  return j % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

}  // namespace

Tensor sinusoidal_positions(std::size_t length, std::size_t d_model, DType dtype) {
  Tensor table = Tensor::empty({length, d_model}, dtype);
  dispatch(dtype, [&]<class T>() {
    const auto values = table.mutable_values<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>(sinusoidal_position(i / d_model, i % d_model, d_model));
    }
  });
  return table;
}

namespace {

Tensor position_table(const Scope& scope, PositionKind kind, std::size_t max_length,
                      std::size_t d_model) {
  switch (kind) {
    case PositionKind::sinusoidal:
      return scope.constant({max_length, d_model}, [&](DType dtype) {
        return sinusoidal_positions(max_length, d_model, dtype);
      });
    case PositionKind::learned:
      return scope.parameter("weight", {max_length, d_model},
                             normal_initializer(1.0 / std::sqrt(static_cast<double>(d_model))));
    case PositionKind::none:
    case PositionKind::rotary:
    case PositionKind::alibi:
      return {};
  }
  throw ValueError("positions: unknown kind");
}

}  // namespace

Positions::Positions(const Scope& scope, PositionKind kind, std::size_t max_length,
                     std::size_t d_model)
    : path_(&scope.path()),
      max_length_(max_length),
      d_model_(d_model),
      table_(position_table(scope, kind, max_length, d_model)) {}

Tensor Positions::operator()(const Tensor& x) const {
  const LayerPath here(*path_);
  if (x.rank() != 3 || x.shape()[2] != d_model_) {
    throw ShapeError(fmt::format("positions: x has shape {}, expected (batch, length, {})",
                                 to_string(x.shape()), d_model_));
  }
  const std::size_t length = x.shape()[1];
  if (length > max_length_) {
    throw ShapeError(
        fmt::format("positions: the sequence has {} tokens, expected at most {} "
                    "(model.max_length)",
                    length, max_length_));
  }
  return table_ ? add(x, slice(table_, 0, 0, length)) : x;
}

}  // namespace tapestry
