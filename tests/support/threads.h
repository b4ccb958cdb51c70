#pragma once

#include <cstddef>
#include <vector>

#include "autograd/kernels/parallel.h"

namespace tapestry::testing {

/// Sets the number of threads of kernels until it goes out of scope.
class ThreadCount {
 public:
  explicit ThreadCount(std::size_t threads) : previous_(kernels::num_threads()) {
    kernels::set_num_threads(threads);
  }
  ~ThreadCount() { kernels::set_num_threads(previous_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  std::size_t previous_;
};

/// True if compute(), which returns something comparable, gives the same on 1, 2 and 8 threads.
template <class F>
bool same_on_any_number_of_threads(F&& compute) {
  const auto run = [&](std::size_t threads) {
    const ThreadCount count(threads);
    return compute();
  };
  const auto alone = run(1);
  return run(2) == alone && run(8) == alone;
}

}  // namespace tapestry::testing
