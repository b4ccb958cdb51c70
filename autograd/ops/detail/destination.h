#pragma once

namespace tapestry {

/// A second result of an operation's forward, written to a variable of the caller if there is one.
/// Copies write nothing, because a copied operation may run again when the variable is gone.
/// Internal.
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
