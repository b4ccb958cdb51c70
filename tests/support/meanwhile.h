// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

namespace tapestry::test {

/// Repeats an action in a separate thread during its lifetime.
class Meanwhile {
 public:
  /// The argument of `action` is the number of earlier calls.
  explicit Meanwhile(std::function<void(long)> action)
      : thread_([this, action = std::move(action)] {
          for (long n = 0; !done_; ++n) action(n);
        }) {}
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;
  ~Meanwhile() {
    done_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace tapestry::test
