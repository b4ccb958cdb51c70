// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "autograd/error.h"

namespace tapestry {

Ids::Ids(const Shape& shape, std::int32_t value) : shape_(shape), values_(shape.size(), value) {}

Ids::Ids(std::vector<std::int32_t> values) : shape_{values.size()}, values_(std::move(values)) {}

Ids::Ids(const Shape& shape, std::vector<std::int32_t> values)
    : shape_(shape), values_(std::move(values)) {
  if (values_.size() != shape_.size()) {
    throw ShapeError(fmt::format("ids: {} values given for shape {}, expected {}", values_.size(),
                                 to_string(shape_), shape_.size()));
  }
}

Ids::Ids(std::initializer_list<std::initializer_list<std::int32_t>> rows)
    : shape_({rows.size(), rows.size() > 0 ? rows.begin()->size() : 0}) {
  for (const auto& row : rows) {
    if (row.size() != shape_[1]) {
      throw ShapeError(fmt::format("ids: a row has {} values, expected {} as in the first row",
                                   row.size(), shape_[1]));
    }
    values_.insert(values_.end(), row.begin(), row.end());
  }
}

Ids Ids::arange(std::size_t count) {
  if (count > std::size_t{1} << 31U) {
    throw ValueError(fmt::format("Ids::arange: count is {}, expected at most 2^31", count));
  }
  Ids ids = zeros({count});
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

Ids Ids::from(std::vector<std::int32_t> ids) {
  const Shape shape{ids.size()};
  return Ids(shape, std::move(ids));
}

Ids Ids::padded(const std::vector<std::vector<std::int32_t>>& rows, std::int32_t padding_id) {
  std::size_t max_length = 0;
  for (const auto& row : rows) max_length = std::max(max_length, row.size());
  Ids result({rows.size(), max_length}, padding_id);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::ranges::copy(rows[r], result.data() + r * max_length);
  }
  return result;
}

Ids Ids::operator[](const Ids& index) const {
  if (shape_.rank() == 0) {
    throw ShapeError("ids: the shape is (), expected an axis to index");
  }
  std::vector<std::size_t> extents(index.shape_.begin(), index.shape_.end());
  extents.insert(extents.end(), shape_.begin() + 1, shape_.end());
  Ids parts = zeros(Shape(extents));
  const std::size_t part = shape_.product(1, shape_.rank());
  auto out = parts.values_.begin();
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (index[i] < 0 || static_cast<std::size_t>(index[i]) >= shape_[0]) {
      throw ValueError(fmt::format("ids: the index at {} is {}, expected 0 to {} (shape is {})",
                                   index.place(i), index[i],
                                   static_cast<std::ptrdiff_t>(shape_[0]) - 1, to_string(shape_)));
    }
    out = std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(part) * index[i], part, out);
  }
  return parts;
}

std::string Ids::place(std::size_t position) const {
  Shape indices = shape_;
  for (std::size_t axis = shape_.rank(); axis-- > 0;) {
    indices[axis] = position % shape_[axis];
    position /= shape_[axis];
  }
  return to_string(indices);
}

Ids slice(const Ids& ids, std::ptrdiff_t axis, std::ptrdiff_t begin, std::ptrdiff_t end) {
  const Shape& shape = ids.shape();
  const std::size_t along = resolve_axis("slice", axis, shape.rank());
  const auto extent = static_cast<std::ptrdiff_t>(shape[along]);
  const std::ptrdiff_t first = begin < 0 ? begin + extent : begin;
  const std::ptrdiff_t last = end < 0 ? end + extent : end;
  if (first < 0 || first > last || last > extent) {
    throw ValueError(fmt::format(
        "slice: [{}, {}) of axis {} of ids, whose shape is {}, expected 0 <= begin <= end <= {}, "
        "counted from the back if negative",
        begin, end, along, to_string(shape), extent));
  }
  const auto inner = static_cast<std::ptrdiff_t>(shape.product(along + 1, shape.rank()));
  Shape result_shape = shape;
  result_shape[along] = static_cast<std::size_t>(last - first);
  Ids result = Ids::zeros(result_shape);
  auto out = result.begin();
  for (std::size_t o = 0; o < shape.product(0, along); ++o) {
    const auto row = ids.begin() + static_cast<std::ptrdiff_t>(o) * extent * inner;
    out = std::copy(row + first * inner, row + last * inner, out);
  }
  return result;
}

Ids select(const Ids& ids, std::ptrdiff_t axis, std::ptrdiff_t index) {
  const std::size_t along = resolve_axis("select", axis, ids.shape().rank());
  const auto extent = static_cast<std::ptrdiff_t>(ids.shape()[along]);
  if (index < -extent || index >= extent) {
    throw ValueError(fmt::format(
        "select: index {} of axis {} of ids, whose shape is {}, expected {} <= index < {}", index,
        along, to_string(ids.shape()), -extent, extent));
  }
  const std::ptrdiff_t begin = index < 0 ? index + extent : index;
  const Ids part = slice(ids, axis, begin, begin + 1);
  return Ids(ids.shape().erased(along), {part.begin(), part.end()});
}

Ids concat(std::span<const Ids> parts, std::ptrdiff_t axis) {
  if (parts.empty()) throw ValueError("concat: no ids given, expected at least 1");
  Shape shape = parts[0].shape();
  const std::size_t along = resolve_axis("concat", axis, shape.rank());
  for (std::size_t k = 1; k < parts.size(); ++k) {
    Shape others = parts[k].shape();
    if (others.rank() == shape.rank()) others[along] = parts[0].shape()[along];
    if (others != parts[0].shape()) {
      throw ShapeError(
          fmt::format("concat: ids {} have shape {}, expected {} like ids 0 except along axis {}",
                      k, to_string(parts[k].shape()), to_string(parts[0].shape()), along));
    }
    shape[along] += parts[k].shape()[along];
  }
  std::vector<std::int32_t> values;
  values.reserve(shape.size());
  for (std::size_t o = 0; o < shape.product(0, along); ++o) {
    for (const Ids& part : parts) {
      const std::size_t block = part.shape().product(along, shape.rank());
      values.insert(values.end(), part.data() + o * block, part.data() + (o + 1) * block);
    }
  }
  return Ids(shape, std::move(values));
}

Ids stack(std::span<const Ids> parts, std::ptrdiff_t axis) {
  if (parts.empty()) throw ValueError("stack: no ids given, expected at least 1");
  const Shape& shape = parts[0].shape();
  const std::size_t along = resolve_axis("stack", axis, shape.rank() + 1);
  std::vector<Ids> layers;
  for (const Ids& part : parts) {
    if (part.shape() != shape) {
      throw ShapeError(fmt::format("stack: ids {} have shape {}, expected {} like ids 0",
                                   layers.size(), to_string(part.shape()), to_string(shape)));
    }
    layers.emplace_back(shape.inserted(along, 1), part.to_vector());
  }
  return concat(layers, static_cast<std::ptrdiff_t>(along));
}

}  // namespace tapestry
