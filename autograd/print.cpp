#include "autograd/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "autograd/error.h"
#include "autograd/ids.h"

namespace tapestry {
namespace {

constexpr std::size_t most_shown_whole = 1000;
constexpr std::size_t edge = 3;  ///< indices shown at each end of an axis

/// Numbers of an array, row by row in brackets.
class Printer {
 public:
  /// `number` gives the text of the number at a position in row-major order.
  template <class Number>
  Printer(const Shape& shape, const Number& number)
      : shape_(shape), shortened_(shape.size() > most_shown_whole) {
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

  /// The numbers that are shown, in their order.
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

  /// `indent` is the column behind the brackets that are open.
  void print(std::size_t axis, std::size_t indent) {
    if (axis == shape_.rank()) {
      text_ += fmt::format("{:>{}}", numbers_[next_++], width_);
      return;
    }
    const std::size_t line_ends = shape_.rank() - axis - 1;  // none between the numbers of a row
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
