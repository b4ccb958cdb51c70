#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
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
/// Passes are for values alone: gradients of held operations are not those of the pieces.
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
    Pieces& pieces_;
    Pieces* outer_;
  };

  /// Those of the innermost pass on this thread, or null.
  static Pieces* active() { return active_; }

  /// The pieces of the n elements of the next call in this pass, by an operation of this name.
  /// `piece_of(i)` says on which element i is now: a number >= 0, or at_a_kink.
  ///
  /// throws  ValueError if the first pass met another operation or number of elements here.
  template <class PieceOf>
  std::span<const std::int32_t> next(const char* operation, std::size_t n,
                                     const PieceOf& piece_of) {
    if (noted_) return noted_call(operation, n);
    calls_.push_back({operation, std::vector<std::int32_t>(n)});
    std::vector<std::int32_t>& pieces = calls_.back().pieces;
    for (std::size_t i = 0; i < n; ++i) pieces[i] = piece_of(i);
    return pieces;
  }

 private:
  struct Call {
    std::string operation;
    std::vector<std::int32_t> pieces;
  };

  std::span<const std::int32_t> noted_call(const char* operation, std::size_t n);

  static inline constinit thread_local Pieces* active_ = nullptr;

  std::vector<Call> calls_;
  bool noted_ = false;
  std::size_t next_ = 0;
};

}  // namespace tapestry
