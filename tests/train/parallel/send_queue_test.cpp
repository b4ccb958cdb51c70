#include "train/parallel/mpi/send_queue.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <span>
#include <vector>

namespace tapestry {
namespace {

using Requests = std::vector<Transport::Request>;

/// A queue whose messages are sent when a test says so.
class Sender {
 public:
  explicit Sender(std::size_t most_bytes) : queue_(most_bytes) {}

  void add(Transport::Request request, std::size_t bytes) {
    queue_.add({.request = request, .to = 1, .bytes = std::span(memory_).first(bytes)});
  }

  void note_sent(Transport::Request request) { sent_.insert(request); }

  /// The messages that begin now.
  Requests proceed() {
    Requests begun;
    queue_.proceed([this](Transport::Request request) { return sent_.erase(request) > 0; },
                   [&](const SendQueue::Message& message) { begun.push_back(message.request); });
    return begun;
  }

 private:
  SendQueue queue_;
  std::set<Transport::Request> sent_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(1000);
};

TEST_CASE("messages begin in their order, while fewer than the limit of bytes are being sent") {
  Sender sender(100);
  for (Transport::Request request = 1; request <= 6; ++request) sender.add(request, 40);
  CHECK(sender.proceed() == Requests{1, 2, 3});
  CHECK(sender.proceed().empty());
  sender.note_sent(2);
  CHECK(sender.proceed() == Requests{4});
  sender.note_sent(1);
  sender.note_sent(3);
  CHECK(sender.proceed() == Requests{5, 6});
}

TEST_CASE("a message of more bytes than the limit begins behind those before it") {
  Sender sender(100);
  sender.add(1, 99);
  sender.add(2, 1000);
  sender.add(3, 1);
  CHECK(sender.proceed() == Requests{1, 2});
  sender.note_sent(1);
  CHECK(sender.proceed().empty());
  sender.note_sent(2);
  CHECK(sender.proceed() == Requests{3});
}

TEST_CASE("messages that were added later count those that are still being sent") {
  Sender sender(100);
  sender.add(1, 100);
  CHECK(sender.proceed() == Requests{1});
  sender.add(2, 100);
  CHECK(sender.proceed().empty());
  sender.note_sent(1);
  CHECK(sender.proceed() == Requests{2});
}

}  // namespace
}  // namespace tapestry
