// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <type_traits>

namespace tapestry::kernels {

/// Maximum number of threads of an operation; larger numbers have no further effect.
inline constexpr std::size_t max_threads = 1024;

/// Sets the number of threads that operations use; 0 means one for each core that this process may
/// run on. The number affects only the time of an operation, never its result.
void set_num_threads(std::size_t threads);
/// The number given to set_num_threads(); the number of cores if that was 0 or the function was not
/// called.
std::size_t num_threads();
/// num_threads(), or less if the system failed to start some threads; the running threads do all
/// the work.
std::size_t threads_at_work();

/// Thrown by parallel_for() inside a CancellationScope whose flag is set.
class Cancelled : public std::exception {
 public:
  /// A message for logs.
  const char* what() const noexcept override { return "the computation was cancelled"; }
};

/// During its lifetime, parallel_for() skips its remaining pieces and throws Cancelled as soon as
/// `*flag` is true, so that a signal handler or another thread can end a long computation at any
/// point. Applies to the whole process; scopes do not nest. A null `flag` has no effect.
class CancellationScope {
 public:
  /// `flag` must outlive the scope.
  explicit CancellationScope(const std::atomic<bool>* flag);
  ~CancellationScope();
  CancellationScope(const CancellationScope&) = delete;
  CancellationScope& operator=(const CancellationScope&) = delete;
};

/// During its lifetime, nothing in the process throws Cancelled. For short work that must not be
/// interrupted. These scopes nest, also across threads.
class UncancellableScope {
 public:
  UncancellableScope();
  ~UncancellableScope();
  UncancellableScope(const UncancellableScope&) = delete;
  UncancellableScope& operator=(const UncancellableScope&) = delete;
};

/// throws  Cancelled inside a CancellationScope whose flag is set, unless there is also an
/// UncancellableScope. For long serial work.
void throw_if_cancelled();

namespace detail {
void run_pieces(std::size_t pieces, void (*body)(void*, std::size_t), void* context);
}

/// Runs body(i) once for every i in [0, pieces), on all threads, and returns when all have ended.
///
/// To get the same bits on any number of threads, choose the pieces from shapes only, let each
/// piece write memory that no other piece touches, and combine partial results afterwards in the
/// order of the pieces. If a piece throws, other pieces may be skipped, and the first exception is
/// rethrown when the running pieces have ended. A call inside a piece, or while the pieces of
/// another thread run, executes its pieces one after the other.
template <class Body>
void parallel_for(std::size_t pieces, Body&& body) {
  using Callable = std::remove_reference_t<Body>;
  detail::run_pieces(
      pieces, [](void* context, std::size_t i) { (*static_cast<Callable*>(context))(i); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

/// Number of elements in a piece of element-wise work: enough to make waking a thread worthwhile.
inline constexpr std::size_t elements_per_piece = 16384;

/// Splits [0, n) into pieces of `per_piece` and runs body(begin, end) for each.
template <class Body>
void parallel_ranges(std::size_t n, std::size_t per_piece, Body&& body) {
  const std::size_t step = std::max<std::size_t>(per_piece, 1);
  parallel_for((n + step - 1) / step,
               [&](std::size_t piece) { body(piece * step, std::min(n, (piece + 1) * step)); });
}

/// Splits `rows` rows of `columns` elements so that a piece has about `elements_per_piece`.
template <class Body>
void parallel_rows(std::size_t rows, std::size_t columns, Body&& body) {
  parallel_ranges(rows, elements_per_piece / std::max<std::size_t>(columns, 1), body);
}

}  // namespace tapestry::kernels

namespace tapestry {

using kernels::num_threads;
using kernels::set_num_threads;

}  // namespace tapestry
