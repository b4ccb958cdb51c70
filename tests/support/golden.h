// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "autograd/ids.h"
#include "autograd/named_tensor.h"
#include "autograd/tape.h"
#include "tests/support/source_folder.h"
#include "tests/support/values.h"

namespace tapestry::test {

/// A file of tests/golden/. It is text: a line [NAME] begins a case; each tensor of the case has a
/// line with its name and extents, and a line with its values in row-major order, in enough digits
/// to be read back exactly. Lines that start with # are comments.
inline std::ifstream open_golden(const std::string& file) {
  std::ifstream in(source_folder() / "tests/golden" / file);
  REQUIRE_MESSAGE(in, "cannot read tests/golden/" << file);
  return in;
}

/// The names of all cases in a file, in the order of the file.
inline std::vector<std::string> golden_cases(const std::string& file) {
  std::ifstream in = open_golden(file);
  std::vector<std::string> cases;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("[")) cases.push_back(line.substr(1, line.size() - 2));
  }
  return cases;
}

/// Tensors that PyTorch computed in float64 for one case, to compare with results in either
/// precision.
///
/// Contents of a case: input/NAME and parameter/NAME, which are multiples of 1/256 and therefore
/// exact in float32, output, output_gradient (a given dL/d(output)), and gradient/NAME of the
/// parameters and of the inputs that are differentiated.
class Golden {
 public:
  Golden(const std::string& file, const std::string& name, DType dtype) : dtype_(dtype) {
    CAPTURE(file);
    CAPTURE(name);
    std::ifstream in = open_golden(file);
    std::string line;
    while (line != "[" + name + "]") REQUIRE(std::getline(in, line));
    while (std::getline(in, line) && !line.starts_with("[")) read_tensor(line, in);
  }

  bool has(const std::string& name) const { return tensors_.contains(name); }

  /// The stored values, in float64.
  const Tensor& at(const std::string& name) const {
    REQUIRE_MESSAGE(has(name), "the golden file has no " << name);
    return tensors_.find(name)->second;
  }

  /// An input in the precision of the comparison. Repeated calls return the same tensor.
  Tensor operator[](const std::string& input) {
    const auto found = inputs_.find(input);
    if (found != inputs_.end()) return found->second;
    Tensor tensor = at("input/" + input).to(dtype_);
    if (has("gradient/" + input)) tensor.set_requires_grad(true);
    return inputs_[input] = tensor;
  }

  /// Inputs that are not tensors.
  double number(const std::string& input) const { return at("input/" + input).item(); }
  bool flag(const std::string& input) const { return number(input) != 0.0; }
  template <class T = std::int32_t>
  std::vector<T> integers(const std::string& input) const {
    std::vector<T> result;
    for (const double value : values_of(at("input/" + input))) {
      result.push_back(static_cast<T>(value));
    }
    return result;
  }
  Ids ids(const std::string& input) const {
    return Ids(at("input/" + input).shape(), integers(input));
  }

  /// Sets every parameter to its stored value; both must have the same names.
  void load(std::span<const NamedTensor> parameters) const {
    REQUIRE(count("parameter/") == parameters.size());
    for (NamedTensor p : parameters) {
      const Tensor value = at("parameter/" + p.name).detach().to(p.tensor.dtype());
      REQUIRE(value.shape() == p.tensor.shape());
      dispatch(value.dtype(), [&]<class T>() {
        std::ranges::copy(value.values<T>(), p.tensor.mutable_values<T>().begin());
      });
    }
  }

  /// Checks the output of `function` and the gradients of parameters and inputs.
  void check(const std::function<Tensor()>& function,
             std::span<const NamedTensor> parameters = {}) {
    Tape tape;
    const Tensor y = function();
    check_equal("output", y);
    tape.backward(y, at("output_gradient").to(dtype_));
    for (const NamedTensor& p : parameters) check_equal("gradient/" + p.name, p.tensor.grad());
    for (const auto& [name, x] : inputs_) {
      if (x.requires_grad()) check_equal("gradient/" + name, x.grad());
    }
    CHECK(count("gradient/") == checked_gradients_);
  }

  /// Checks that no value of `found` differs from the stored value by more than `relative` times
  /// the largest stored magnitude of the tensor.
  void check_equal(const std::string& name, const Tensor& found, double relative) {
    CAPTURE(name);
    const std::vector<double> expected = values_of(at(name));
    REQUIRE(found.defined());
    REQUIRE(found.dtype() == dtype_);
    REQUIRE(found.shape() == at(name).shape());
    const std::vector<double> values = values_of(found);
    const double bound = relative * scale(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      CAPTURE(i);
      CAPTURE(values[i]);
      CAPTURE(expected[i]);
      CHECK(std::abs(values[i] - expected[i]) <= bound);
    }
    checked_gradients_ += name.starts_with("gradient/");
  }

  /// Checks equality with a relative tolerance of 1e-10 in float64 and 1e-5 in float32.
  void check_equal(const std::string& name, const Tensor& found) {
    check_equal(name, found, dtype_ == DType::float32 ? 1e-5 : 1e-10);
  }

 private:
  void read_tensor(const std::string& heading, std::istream& in) {
    std::istringstream fields(heading);
    std::string name;
    fields >> name;
    std::string line;
    std::getline(in, line);
    std::istringstream values(line);
    const Shape shape(numbers<std::size_t>(fields));
    tensors_[name] = Tensor::from(shape, numbers<double>(values), DType::float64);
  }

  template <class T>
  static std::vector<T> numbers(std::istream& in) {
    std::vector<T> result;
    for (T number; in >> number;) result.push_back(number);
    return result;
  }

  std::size_t count(const std::string& prefix) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        tensors_, [&](const auto& entry) { return entry.first.starts_with(prefix); }));
  }

  /// The largest stored magnitude. For the bias of a key projection, the largest magnitude of the
  /// weight's gradient: the bias adds one number to all scores of a query, which softmax cancels,
  /// so its gradient is 0 except for rounding in sums as large as the sums for the weight.
  double scale(std::string name) const {
    const std::string key_bias = "k_proj.bias";
    if (name.starts_with("gradient/") && name.ends_with(key_bias)) {
      name.replace(name.size() - key_bias.size(), key_bias.size(), "k_proj.weight");
    }
    double largest = 0.0;
    for (const double value : values_of(at(name))) largest = std::max(largest, std::abs(value));
    return largest;
  }

  DType dtype_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, Tensor> inputs_;
  std::size_t checked_gradients_ = 0;
};

}  // namespace tapestry::test
