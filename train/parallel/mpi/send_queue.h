#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "train/parallel/transport.h"

namespace tapestry {

/// Messages that are sent in order, a limited number of bytes at a time. If all of them began at
/// the same time, they would share the bandwidth, and the first would arrive as late as the last.
class SendQueue {
 public:
  /// A message to be sent.
  struct Message {
    Transport::Request request = 0;
    std::size_t to = 0;
    std::span<const std::byte> bytes{};
  };

  /// most_bytes  a message begins while the bytes of those that have begun and are not sent are
  ///             fewer
  explicit SendQueue(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Adds a message behind all others.
  void add(const Message& message) { waiting_.push_back(message); }

  /// Begins the messages that are next.
  ///
  /// is_sent  whether a message that has begun is sent: bool(Transport::Request); not called again
  ///          for a message that is
  /// begin    begins to send a message: void(const Message&)
  template <class IsSent, class Begin>
  void proceed(const IsSent& is_sent, const Begin& begin) {
    if (waiting_.empty()) return;
    std::erase_if(begun_, [&](const Message& message) {
      if (!is_sent(message.request)) return false;
      bytes_ -= message.bytes.size();
      return true;
    });
    for (; !waiting_.empty() && bytes_ < most_bytes_; waiting_.pop_front()) {
      begin(waiting_.front());
      begun_.push_back(waiting_.front());
      bytes_ += waiting_.front().bytes.size();
    }
  }

 private:
  std::size_t most_bytes_;
  std::deque<Message> waiting_;  ///< in their order
  std::vector<Message> begun_;   ///< and not known to be sent
  std::size_t bytes_ = 0;        ///< of these
};

}  // namespace tapestry
