#pragma once

namespace tapestry {

/// Where the forward of an operation leaves something for its caller beside its output, if
/// anywhere; for sources of operations. A copy of the operation, which may run again when the
/// caller is gone, leaves it nowhere.
template <class T>
class Destination {
 public:
  explicit Destination(T* to) : place_(to) {}
  Destination(Destination&&) = default;
  Destination(const Destination&) : place_(nullptr) {}
  void put(const T& value) const {
    if (place_ != nullptr) *place_ = value;
  }

 private:
  T* place_;
};

}  // namespace tapestry
