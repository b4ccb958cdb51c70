#pragma once

namespace tapestry {

/// Values of tensors that are still being transferred: others write some of them, or read them, at
/// the same time. Tensors call it before they give access to their values, see
/// Tensor::set_pending().
///
/// Both functions may be called by several threads at the same time, and again after they have
/// returned.
class PendingValues {
 public:
  virtual ~PendingValues() = default;
  PendingValues(const PendingValues&) = delete;
  PendingValues& operator=(const PendingValues&) = delete;

  /// Returns when the values are there.
  virtual void wait_to_read() = 0;
  /// Returns when the values are there and nobody else reads them any more.
  virtual void wait_to_change() = 0;

 protected:
  PendingValues() = default;
};

}  // namespace tapestry
