#include "train/parallel/mpi/send_queue.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <set>
#include <span>
#include <vector>

namespace tapestry {
namespace {

using namespace std::chrono_literals;
using Requests = std::vector<Transport::Request>;

/// A queue whose messages are sent when a test says so.
class Sender {
 public:
  void add(Transport::Request request, std::size_t bytes) {
    queue_.add({.request = request, .to = 1, .bytes = std::span(memory_).first(bytes)});
  }

  void note_sent(const Requests& requests) { sent_.insert(requests.begin(), requests.end()); }

  /// The messages that begin now.
  Requests proceed(std::chrono::milliseconds later = 0ms) {
    Requests begun;
    now_ += later;
    queue_.proceed(
        now_, [this](Transport::Request request) { return sent_.erase(request) > 0; },
        [&](const SendQueue::Message& message) { begun.push_back(message.request); });
    return begun;
  }

  bool has_begun_all() const { return queue_.empty(); }

 private:
  SendQueue queue_;
  SendQueue::Clock::time_point now_{};
  std::set<Transport::Request> sent_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(2 * SendQueue::first_limit);
};

constexpr std::size_t half = SendQueue::first_limit / 2;

}  // namespace

TEST_CASE("messages begin in their order, while fewer bytes than the limit are being sent") {
  Sender sender;
  for (Transport::Request request = 1; request <= 6; ++request) sender.add(request, half - 1);
  CHECK(sender.proceed() == Requests{1, 2, 3});
  CHECK(sender.proceed().empty());
  sender.note_sent({2});
  CHECK(sender.proceed() == Requests{4});
  CHECK_FALSE(sender.has_begun_all());
  sender.note_sent({1, 3});
  CHECK(sender.proceed() == Requests{5, 6});
  CHECK(sender.has_begun_all());
}

TEST_CASE("two messages of any size are being sent at the same time") {
  Sender sender;
  for (Transport::Request request = 1; request <= 4; ++request) sender.add(request, 4 * half);
  CHECK(sender.proceed() == Requests{1, 2});
  sender.note_sent({1});
  CHECK(sender.proceed() == Requests{3});
  CHECK(sender.proceed().empty());
}

TEST_CASE("messages that were added later count those that are still being sent") {
  Sender sender;
  sender.add(1, half);
  sender.add(2, half);
  CHECK(sender.proceed() == Requests{1, 2});
  sender.add(3, 1);
  CHECK(sender.proceed().empty());
  sender.note_sent({1});
  CHECK(sender.proceed() == Requests{3});
}

TEST_CASE("more bytes are sent at the same time when all that had begun are sent") {
  Sender sender;
  for (Transport::Request request = 1; request <= 9; ++request) sender.add(request, half);
  CHECK(sender.proceed() == Requests{1, 2});
  sender.note_sent({1, 2});
  CHECK(sender.proceed(1ms) == Requests{3, 4, 5, 6});
  sender.note_sent({3, 4, 5});
  CHECK(sender.proceed(1ms) == Requests{7, 8, 9});
}

TEST_CASE("fewer bytes are sent at the same time when a message takes long") {
  Sender sender;
  for (Transport::Request request = 1; request <= 20; ++request) sender.add(request, half / 2);
  CHECK(sender.proceed() == Requests{1, 2, 3, 4});
  CHECK(sender.proceed(SendQueue::slow + 1ms).empty());
  sender.note_sent({1, 2});
  CHECK(sender.proceed().empty());
  sender.note_sent({3});
  CHECK(sender.proceed() == Requests{5});
  CHECK(sender.proceed().empty());
}

TEST_CASE("the time between two exchanges does not change how much is sent at the same time") {
  Sender sender;
  for (Transport::Request request = 1; request <= 6; ++request) {
    sender.add(request, half / 4);
    CHECK(sender.proceed(1000ms) == Requests{request});
    sender.note_sent({request});
  }
  for (Transport::Request request = 7; request <= 20; ++request) sender.add(request, half / 4);
  CHECK(sender.proceed(1000ms) == Requests{7, 8, 9, 10, 11, 12, 13, 14});
}

}  // namespace tapestry
