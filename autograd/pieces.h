#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tapestry {

/// On which of its smooth pieces each element of a piecewise operation stands, call by call.
///
/// A gradient belongs to the piece that its point lies in, but differences reach across the kinks
/// around it: of the hundred thousand ReLUs of a model some are always near enough. A gradient
/// check therefore notes the pieces at its point, and while it moves away the operations stay on
/// them. That makes of the function a smooth one with the gradient in question. An element exactly
/// at a kink is held to nothing, and differences go on to tell that it is one.
///
/// An operation of your own takes part by asking for `active()` in its forward; see relu and max.
class Pieces {
 public:
  /// The mark of an element that stands at a kink.
  static constexpr std::int32_t at_a_kink = -1;

  /// While one is alive, operations on its thread are held: the first time to the pieces that they
  /// are on, which are noted, and from then on to those.
  class Pass {
   public:
    explicit Pass(Pieces& pieces);
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    Pieces* outer_;
  };

  /// Those of the innermost pass on this thread, or null.
  static Pieces* active() { return active_; }

  /// The pieces of the n elements of the next call in this pass. `piece_of(i)` says on which
  /// element i is now: a number >= 0, or at_a_kink.
  template <class PieceOf>
  std::span<const std::int32_t> next(std::size_t n, const PieceOf& piece_of) {
    std::vector<std::int32_t>& call = next_call();
    if (call.size() != n) {
      call.resize(n);
      for (std::size_t i = 0; i < n; ++i) call[i] = piece_of(i);
    }
    return call;
  }

 private:
  std::vector<std::int32_t>& next_call();

  static inline constinit thread_local Pieces* active_ = nullptr;

  std::vector<std::vector<std::int32_t>> calls_;
  std::size_t next_ = 0;
};

}  // namespace tapestry
