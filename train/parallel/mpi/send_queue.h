#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "train/parallel/transport.h"

namespace tapestry {

/// Messages that are sent in order, few at a time. If all of them began at the same time, they would
/// share the bandwidth, and the first would arrive as late as the last.
///
/// At least two messages are being sent, and as many bytes as the network sends in some
/// milliseconds: the limit is halved when a message was not sent within `slow`, and doubled when
/// all messages that had begun are sent while others waited, so that the network had nothing to do.
class SendQueue {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t fewest_messages = 2;
  static constexpr std::size_t smallest_limit = std::size_t{1} << 16;  ///< bytes
  static constexpr std::size_t first_limit = std::size_t{1} << 20;     ///< bytes
  static constexpr std::size_t largest_limit = std::size_t{1} << 28;   ///< bytes
  static constexpr std::chrono::milliseconds slow{10};

  /// A message to be sent.
  struct Message {
    Transport::Request request = 0;
    std::size_t to = 0;
    std::span<const std::byte> bytes{};
  };

  /// Adds a message behind all others.
  void add(const Message& message) { waiting_.push_back(message); }
  /// Whether all messages have begun.
  bool empty() const { return waiting_.empty(); }

  /// Begins the messages that are next.
  ///
  /// is_sent  whether a message that has begun is sent: bool(Transport::Request); not called again
  ///          for a message that is
  /// begin    begins to send a message: void(const Message&)
  template <class IsSent, class Begin>
  void proceed(Clock::time_point now, const IsSent& is_sent, const Begin& begin) {
    if (waiting_.empty()) return;
    remove_sent(is_sent);
    while (!waiting_.empty() && (begun_.size() < fewest_messages || bytes_ < limit_)) {
      begin(waiting_.front());
      begun_.push_back({.message = waiting_.front(), .since = now});
      bytes_ += waiting_.front().bytes.size();
      waiting_.pop_front();
    }
    looked_ = now;
    held_back_ = !waiting_.empty();
  }

 private:
  struct Begun {
    Message message{};
    Clock::time_point since{};
  };

  template <class IsSent>
  void remove_sent(const IsSent& is_sent) {
    if (begun_.empty()) return;
    bool is_slow = false;
    std::erase_if(begun_, [&](const Begun& begun) {
      if (!is_sent(begun.message.request)) return false;
      bytes_ -= begun.message.bytes.size();
      is_slow = is_slow || looked_ - begun.since > slow;
      return true;
    });
    if (is_slow) {
      limit_ = std::max(limit_ / 2, smallest_limit);
    } else if (held_back_ && begun_.empty()) {
      limit_ = std::min(2 * limit_, largest_limit);
    }
  }

  std::deque<Message> waiting_;  ///< in their order
  std::vector<Begun> begun_;     ///< and not known to be sent
  std::size_t bytes_ = 0;        ///< of these
  std::size_t limit_ = first_limit;
  Clock::time_point looked_{};  ///< when messages were last found not to be sent
  bool held_back_ = false;      ///< whether messages waited then
};

}  // namespace tapestry
