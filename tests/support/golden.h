#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "layers/parameters.h"
#include "tests/support/values.h"

namespace tapestry::testing {

/// Tensors that another program computed, by name, from a text file: for each tensor a line with
/// its name and its extents and a line with its values in row-major order, 17 digits each. Lines
/// that start with # are comments.
///
/// What is in a case: input/NAME, parameter/NAME, output, output_gradient (a given dL/d(output)),
/// and gradient/NAME of parameters and inputs.
class Golden {
 public:
  explicit Golden(const std::string& file) {
    std::ifstream in(file);
    REQUIRE_MESSAGE(in, "cannot read " << file);
    std::string heading;
    while (std::getline(in, heading)) {
      if (heading.starts_with("#")) continue;
      std::istringstream fields(heading);
      std::string name;
      fields >> name;
      std::string line;
      std::getline(in, line);
      std::istringstream values(line);
      tensors_[name] = Tensor::from(Shape(numbers<std::size_t>(fields)), numbers<double>(values),
                                    DType::float64);
    }
  }

  Tensor at(const std::string& name) const {
    const auto found = tensors_.find(name);
    REQUIRE_MESSAGE(found != tensors_.end(), "the golden file has no " << name);
    return found->second;
  }

  /// An input as a leaf that wants a gradient.
  Tensor leaf(const std::string& name) const {
    return at("input/" + name).copied(DType::float64).require_gradient();
  }

  std::vector<std::int32_t> integers(const std::string& name) const {
    const auto values = values_of(at("input/" + name));
    return {values.begin(), values.end()};
  }

  /// Gives every parameter its value; file and map must have the same ones.
  void load(const Parameters& parameters) const {
    std::size_t in_file = 0;
    for (const auto& [name, tensor] : tensors_) in_file += name.starts_with("parameter/");
    REQUIRE(in_file == parameters.list().size());
    for (NamedTensor p : parameters) {
      const Tensor value = at("parameter/" + p.name);
      REQUIRE(value.shape() == p.tensor.shape());
      std::ranges::copy(value.values<double>(), p.tensor.mutable_values<double>().begin());
    }
  }

  /// Checks the output of `function` and the gradients of parameters and inputs.
  void check(const std::function<Tensor()>& function, const Parameters& parameters,
             std::initializer_list<NamedTensor> inputs = {}) const {
    Tape tape;
    const Tensor y = function();
    check_equal("output", y);
    tape.backward(y, at("output_gradient"));
    for (const NamedTensor& p : parameters) check_equal("gradient/" + p.name, p.tensor.gradient());
    for (const NamedTensor& x : inputs) check_equal("gradient/" + x.name, x.tensor.gradient());
  }

  void check_equal(const std::string& name, const Tensor& found) const {
    CAPTURE(name);
    CHECK(found.shape() == at(name).shape());
    check_values(found, values_of(at(name)), 1e-12);
  }

 private:
  template <class T>
  static std::vector<T> numbers(std::istream& in) {
    std::vector<T> result;
    for (T number; in >> number;) result.push_back(number);
    return result;
  }

  std::map<std::string, Tensor> tensors_;
};

}  // namespace tapestry::testing
