// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "autograd/kernels/parallel.h"

namespace tapestry::test {

/// Sets the number of threads of kernels during its lifetime.
class Threads {
 public:
  explicit Threads(std::size_t number) : previous_(kernels::num_threads()) {
    kernels::set_num_threads(number);
  }
  ~Threads() { kernels::set_num_threads(previous_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  std::size_t previous_;
};

/// True if compute() returns equal results on 1, 2 and 8 threads.
template <class F>
bool same_on_any_number_of_threads(F&& compute) {
  const auto run = [&](std::size_t threads) {
    const Threads count(threads);
    return compute();
  };
  const auto alone = run(1);
  return run(2) == alone && run(8) == alone;
}

}  // namespace tapestry::test
