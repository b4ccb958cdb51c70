// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <ostream>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/gradient.h"
#include "autograd/ids.h"

namespace tapestry {

struct Tensor::State {
  Shape shape;
  DType dtype;
  bool frozen = false;
  kernels::Memory memory;
  std::size_t offset = 0;  // offset of the first value, in bytes
  std::shared_ptr<GradientSlot> slot;
  const char* read_by = nullptr;  // operation that must not change the values, or null
};

namespace {

/// Rejects shapes whose number of elements overflows.
void require_addressable(const Shape& shape) {
  constexpr std::size_t max_size = std::numeric_limits<std::size_t>::max() / sizeof(double);
  std::size_t size = 1;
  for (const std::size_t extent : shape) {
    if (extent > 1 && size > max_size / extent) {
      throw ShapeError(
          fmt::format("tensor: shape {} has more elements than memory can hold", to_string(shape)));
    }
    size *= std::max<std::size_t>(extent, 1);
  }
}

}  // namespace

Tensor Tensor::over(const Shape& shape, DType dtype, kernels::Memory memory, std::size_t offset) {
  return Tensor(std::allocate_shared<State>(
      kernels::PoolAllocator<State>{},
      State{shape, dtype, false, std::move(memory), offset, {}, nullptr}));
}

Tensor Tensor::empty(const Shape& shape, DType dtype) {
  require_addressable(shape);
  return over(shape, dtype, kernels::Memory(shape.size() * bytes_per_element(dtype)), 0);
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype) {
  Tensor result = empty(shape, dtype);
  dispatch(dtype, [&]<class T>() {
    const std::span<T> values = result.mutable_values<T>();
    std::fill(values.begin(), values.end(), static_cast<T>(value));
  });
  return result;
}

Tensor Tensor::arange(std::size_t n, double first, double step, DType dtype) {
  Tensor result = empty({n}, dtype);
  dispatch(dtype, [&]<class T>() {
    const std::span<T> values = result.mutable_values<T>();
    for (std::size_t i = 0; i < n; ++i) {
      values[i] = static_cast<T>(first + step * static_cast<double>(i));
    }
  });
  return result;
}

namespace {

template <class From>
Tensor converted(const Shape& shape, std::span<const From> values, DType dtype) {
  if (values.size() != shape.size()) {
    throw ShapeError(fmt::format("tensor: {} values given for shape {}, expected {}", values.size(),
                                 to_string(shape), shape.size()));
  }
  Tensor result = Tensor::empty(shape, dtype);
  dispatch(dtype, [&]<class T>() {
    std::transform(values.begin(), values.end(), result.mutable_values<T>().begin(),
                   [](From value) { return static_cast<T>(value); });
  });
  return result;
}

}  // namespace

Tensor Tensor::from(const Shape& shape, std::span<const double> values, DType dtype) {
  return converted(shape, values, dtype);
}

Tensor Tensor::from(const Shape& shape, std::span<const float> values, DType dtype) {
  return converted(shape, values, dtype);
}

Tensor Tensor::from(std::initializer_list<std::initializer_list<double>> rows, DType dtype) {
  const std::size_t columns = rows.size() > 0 ? rows.begin()->size() : 0;
  std::vector<double> values;
  for (const auto& row : rows) {
    if (row.size() != columns) {
      throw ShapeError(fmt::format("tensor: row {} has {} values, expected {} as in the first row",
                                   &row - rows.begin(), row.size(), columns));
    }
    values.insert(values.end(), row.begin(), row.end());
  }
  return from({rows.size(), columns}, values, dtype);
}

Tensor::State& Tensor::state() const {
  if (state_ == nullptr) {
    throw EmptyTensorError(
        "tensor: the tensor is empty, expected a tensor with values: an operand is absent, or "
        "nothing has contributed to a gradient");
  }
  return *state_;
}

const Shape& Tensor::shape() const { return state().shape; }
DType Tensor::dtype() const { return state().dtype; }

template <class T>
std::span<const T> Tensor::values() const {
  if (state().dtype != dtype_of<T>) {
    throw DTypeError(fmt::format("tensor: values are {}, requested as {}", name(state().dtype),
                                 name(dtype_of<T>)));
  }
  return {reinterpret_cast<const T*>(state().memory.data() + state().offset), state().shape.size()};
}

template <class T>
std::span<T> Tensor::mutable_values() {
  const std::span<const T> all = values<T>();
  if (state().read_by != nullptr) {
    throw ValueError(
        fmt::format("{}: backward writes to dL/dy, which must only be read: other operations "
                    "share its memory, so write to dy.clone()",
                    state().read_by));
  }
  if (slot() != nullptr) slot()->increment_version();
  return {const_cast<T*>(all.data()), all.size()};
}

Tensor& Tensor::make_read_only(const char* operation) {
  state().read_by = operation;
  return *this;
}

template std::span<const float> Tensor::values<float>() const;
template std::span<const double> Tensor::values<double>() const;
template std::span<float> Tensor::mutable_values<float>();
template std::span<double> Tensor::mutable_values<double>();

double Tensor::item() const {
  if (size() != 1) {
    throw ShapeError(
        fmt::format("item: tensor has shape {}, expected one element", to_string(shape())));
  }
  return dispatch(dtype(), [&]<class T>() { return static_cast<double>(values<T>()[0]); });
}

std::vector<double> Tensor::to_vector() const {
  return dispatch(dtype(), [&]<class T>() {
    const std::span<const T> all = values<T>();
    return std::vector<double>(all.begin(), all.end());
  });
}

Tensor Tensor::viewed_as(const Shape& shape) const {
  if (shape.size() != size()) {
    throw ShapeError(fmt::format("viewed_as: shape {} cannot become {}: {} elements, expected {}",
                                 to_string(this->shape()), to_string(shape), size(), shape.size()));
  }
  Tensor view = over(shape, dtype(), memory(), state().offset);
  return view.make_read_only(state().read_by);
}

bool Tensor::is_recorded_output() const {
  const auto& slot = state().slot;
  return slot != nullptr && slot->origin() == GradientSlot::Origin::operation;
}

Tensor& Tensor::set_requires_grad(bool value) {
  if (is_recorded_output()) {
    throw ValueError(
        "set_requires_grad: the tensor is the output of an operation, expected a leaf: take "
        "x.detach().clone() for a new leaf, or call x.retain_grad() to read the gradient of x "
        "after backward");
  }
  if (state().slot == nullptr) {
    attach(std::make_shared<GradientSlot>(shape(), dtype(), GradientSlot::Origin::leaf));
  }
  // A tape recorded before the tensor was frozen may have contributed to its gradient since then.
  if (!value || is_frozen()) zero_grad();
  state().frozen = !value;
  return *this;
}

bool Tensor::is_frozen() const { return state_ != nullptr && state_->frozen; }

void Tensor::retain_grad() {
  state();  // throws if the tensor is empty
  if (slot() == nullptr) {
    throw ValueError("retain_grad: the tensor does not require a gradient");
  }
  slot()->retain();
}

Tensor Tensor::grad() const {
  state();  // throws if the tensor is empty
  if (slot() == nullptr) return {};
  return slot()->filled() ? slot()->value() : slot()->retained();
}

void Tensor::zero_grad() {
  if (state().slot != nullptr) state().slot->clear();
}

void Tensor::move_into(const kernels::Memory& values, std::size_t values_offset,
                       const kernels::Memory& gradients, std::size_t gradients_offset) {
  std::copy_n(state().memory.data() + state().offset, size() * bytes_per_element(dtype()),
              values.data() + values_offset);
  state().memory = values;
  state().offset = values_offset;
  if (state().slot != nullptr) state().slot->move_into(gradients, gradients_offset);
}

const std::shared_ptr<GradientSlot>& Tensor::slot() const {
  static const std::shared_ptr<GradientSlot> none;
  return state_ == nullptr || state_->frozen ? none : state_->slot;
}

const kernels::Memory& Tensor::memory() const { return state().memory; }
std::size_t Tensor::byte_offset() const { return state().offset; }

void Tensor::attach(std::shared_ptr<GradientSlot> slot) { state().slot = std::move(slot); }

void detail::throw_empty_operand(const char* operation, const std::string& which) {
  throw EmptyTensorError(fmt::format(
      "{}: {} is an empty Tensor, expected a Tensor with values (a gradient is empty until "
      "backward contributes to it)",
      operation, which));
}

DType common_dtype(const char* operation, const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) detail::throw_empty_operand(operation, "an input");
  if (a.dtype() != b.dtype()) {
    throw DTypeError(fmt::format("{}: operands are {} and {}, expected equal element types",
                                 operation, name(a.dtype()), name(b.dtype())));
  }
  return a.dtype();
}

namespace {

constexpr std::size_t max_shown_whole = 1000;
constexpr std::size_t edge = 3;  ///< number of indices shown at each end of an axis

/// Numbers of an array, row by row in brackets.
class Printer {
 public:
  /// `number` gives the text of the number at a position in row-major order.
  template <class Number>
  Printer(const Shape& shape, const Number& number)
      : shape_(shape), shortened_(shape.size() > max_shown_whole) {
    collect(number, 0, 0);
    for (const std::string& text : numbers_) width_ = std::max(width_, text.size());
  }

  std::string text() {
    print(0, 1);
    return text_;
  }

 private:
  /// Whether the axis is shown with `...` in the middle.
  bool is_cut(std::size_t axis) const { return shortened_ && shape_[axis] > 2 * edge + 1; }

  std::vector<std::size_t> shown_indices(std::size_t axis) const {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < shape_[axis]; ++i) {
      if (!is_cut(axis) || i < edge || i + edge >= shape_[axis]) indices.push_back(i);
    }
    return indices;
  }

  /// Collects the numbers that are shown, in order.
  template <class Number>
  void collect(const Number& number, std::size_t axis, std::size_t position) {
    if (axis == shape_.rank()) {
      numbers_.push_back(number(position));
      return;
    }
    for (const std::size_t i : shown_indices(axis)) {
      collect(number, axis + 1, position * shape_[axis] + i);
    }
  }

  /// `indent` is the column after the open brackets.
  void print(std::size_t axis, std::size_t indent) {
    if (axis == shape_.rank()) {
      text_ += fmt::format("{:>{}}", numbers_[next_++], width_);
      return;
    }
    const std::size_t line_ends = shape_.rank() - axis - 1;  // 0 between the numbers of a row
    const std::string separator =
        fmt::format(",{:\n>{}}{: >{}}", "", line_ends, "", line_ends == 0 ? 1 : indent);
    text_ += '[';
    const auto indices = shown_indices(axis);
    for (std::size_t k = 0; k < indices.size(); ++k) {
      if (k > 0) text_ += separator;
      if (is_cut(axis) && k == edge) text_ += "..." + separator;
      print(axis + 1, indent + 1);
    }
    text_ += ']';
  }

  const Shape& shape_;
  bool shortened_;
  std::vector<std::string> numbers_;
  std::size_t width_ = 0, next_ = 0;
  std::string text_;
};

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "(no tensor)";
  const auto number = [&](std::size_t position) {
    return dispatch(tensor.dtype(), [&]<class T>() {
      return fmt::format("{:.6g}", printable(tensor.values<T>()[position]));
    });
  };
  return fmt::format("{}  {} {}", Printer(tensor.shape(), number).text(), to_string(tensor.shape()),
                     name(tensor.dtype()));
}

std::string to_string(const Ids& ids) {
  const auto number = [&](std::size_t position) { return std::to_string(ids[position]); };
  return fmt::format("{}  {} ids", Printer(ids.shape(), number).text(), to_string(ids.shape()));
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

std::ostream& operator<<(std::ostream& out, const Ids& ids) { return out << to_string(ids); }

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << to_string(tensor);
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

}  // namespace tapestry
