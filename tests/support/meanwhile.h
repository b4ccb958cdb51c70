// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

namespace tapestry::test {

/// Does something again and again, in a separate thread, while it is alive.
class Meanwhile {
 public:
  /// `action` is told how often it was called before.
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
