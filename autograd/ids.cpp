#include "autograd/ids.h"

#include <fmt/format.h>

#include <algorithm>
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

Ids Ids::from(std::vector<std::int32_t> ids) {
  const Shape shape{ids.size()};
  return Ids(shape, std::move(ids));
}

Ids Ids::operator[](const Ids& index) const {
  if (shape_.rank() == 0) {
    throw ShapeError("ids: the shape is (), expected an axis to index");
  }
  std::vector<std::size_t> extents(index.shape_.begin(), index.shape_.end());
  extents.insert(extents.end(), shape_.begin() + 1, shape_.end());
  Ids parts{Shape(extents)};
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

}  // namespace tapestry
