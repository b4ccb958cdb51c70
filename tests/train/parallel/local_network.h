// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "train/parallel/process_group.h"
#include "train/parallel/transport.h"

namespace tapestry::test {

/// Messages between threads that represent processes. A message is read from the memory of its
/// sender when it arrives. Until then, the message must not change and its send is not done.
class LocalNetwork {
 public:
  explicit LocalNetwork(std::size_t size) {
    for (std::size_t rank = 0; rank < size; ++rank) ends_.emplace_back(*this, rank, size);
  }

  /// Transport of the process `rank`.
  Transport& end(std::size_t rank) { return ends_[rank]; }

  /// Makes messages of this channel arrive only after their receiver has polled them `looks` times.
  void delay(Transport::Channel channel, std::size_t looks) { delays_[channel] = looks; }

  /// Calls `call` when a process begins to send on this channel.
  void on_send(Transport::Channel channel,
               std::function<void(std::size_t rank, std::size_t bytes)> call) {
    observed_ = channel;
    on_send_ = std::move(call);
  }

  /// Bytes that the process has sent so far.
  std::size_t bytes_sent(std::size_t rank) const { return ends_[rank].bytes_sent; }

  /// The number of transfers to this process that have begun.
  std::size_t count_receives(std::size_t rank) const { return ends_[rank].receives_.size(); }

  /// How often the process began to receive `count` messages before it waited for a message.
  std::size_t count_receives_at_once(std::size_t rank, std::size_t count) const {
    return static_cast<std::size_t>(std::ranges::count(ends_[rank].receives_at_once, count));
  }

 private:
  struct Message {
    std::vector<std::byte> copy;
    std::span<const std::byte> bytes;  ///< memory of the sender
    std::shared_ptr<bool> is_taken;

    void copy_to(std::span<std::byte> to) const {
      if (bytes.size() != to.size()) throw std::logic_error("message: wrong size");
      if (!std::ranges::equal(bytes, copy)) {
        throw std::logic_error("message: changed while it was sent");
      }
      std::ranges::copy(bytes, to.begin());
      *is_taken = true;
    }
  };

  class End final : public Transport {
   public:
    End(LocalNetwork& network, std::size_t rank, std::size_t size)
        : network_(network), rank_(rank), size_(size) {}

    std::size_t rank() const override { return rank_; }
    std::size_t size() const override { return size_; }

    Request start_send(std::size_t to, Channel channel, std::span<const std::byte> bytes) override {
      const std::lock_guard lock(network_.mutex_);
      bytes_sent += bytes.size();
      if (network_.on_send_ && channel == network_.observed_)
        network_.on_send_(rank_, bytes.size());
      const std::vector<std::byte> copy(bytes.begin(), bytes.end());
      auto done = std::make_shared<bool>(false);
      network_.mail_[{rank_, to, channel}].push_back(
          {.copy = copy, .bytes = bytes, .is_taken = done});
      return keep(std::move(done));
    }

    Request start_receive(std::size_t from, Channel channel, std::span<std::byte> bytes) override {
      const std::lock_guard lock(network_.mutex_);
      if (!is_receiving_) receives_at_once.push_back(0);
      is_receiving_ = true;
      ++receives_at_once.back();
      receives_.push_back({.from = from, .channel = channel, .to = bytes});
      return keep(receives_.back().done);
    }

    bool is_done(Request request) override {
      const std::lock_guard lock(network_.mutex_);
      is_receiving_ = false;
      // Receives of an origin get its messages in the order in which the receives started.
      std::set<std::pair<std::size_t, Channel>> late;
      for (Receive& receive : receives_) {
        const std::pair origin(receive.from, receive.channel);
        auto& mail = network_.mail_[{receive.from, rank_, receive.channel}];
        if (*receive.done || mail.empty() || late.contains(origin)) continue;
        if (receive.looks++ < network_.delays_[receive.channel]) {
          late.insert(origin);
          continue;
        }
        mail.front().copy_to(receive.to);
        mail.pop_front();
        *receive.done = true;
      }
      return *transfers_.at(request);
    }

    [[noreturn]] void abort(int code) override {
      throw std::runtime_error("aborted with " + std::to_string(code));
    }

    std::size_t bytes_sent = 0;
    /// The numbers of transfers that the process began to receive between its waits.
    std::vector<std::size_t> receives_at_once;

   private:
    friend class LocalNetwork;
    struct Receive {
      std::size_t from;
      Channel channel;
      std::span<std::byte> to;
      std::shared_ptr<bool> done = std::make_shared<bool>(false);
      std::size_t looks = 0;  ///< number of polls since its message was sent
    };

    Request keep(std::shared_ptr<bool> done) {
      transfers_.push_back(std::move(done));
      return transfers_.size() - 1;
    }

    LocalNetwork& network_;
    std::size_t rank_, size_;
    std::vector<Receive> receives_;
    std::vector<std::shared_ptr<bool>> transfers_;  ///< whether done, indexed by request
    bool is_receiving_ = false;
  };

  std::mutex mutex_;
  std::map<Transport::Channel, std::size_t> delays_;
  Transport::Channel observed_ = Transport::Channel::data;
  std::function<void(std::size_t, std::size_t)> on_send_;
  std::map<std::tuple<std::size_t, std::size_t, Transport::Channel>, std::deque<Message>> mail_;
  std::deque<End> ends_;
};

/// Runs `process` in `count` threads, each as a process of one group in the network.
inline void run_processes(LocalNetwork& network, std::size_t count,
                          const std::function<void(ProcessGroup& group)>& process) {
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < count; ++rank) {
    threads.emplace_back([&network, &process, rank] {
      ProcessGroup group(network.end(rank));
      process(group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Runs the processes in a new network. Returns the number of bytes that each process has sent.
inline std::vector<std::size_t> run_processes(
    std::size_t count, const std::function<void(ProcessGroup& group)>& process) {
  LocalNetwork network(count);
  run_processes(network, count, process);
  std::vector<std::size_t> sent;
  for (std::size_t rank = 0; rank < count; ++rank) sent.push_back(network.bytes_sent(rank));
  return sent;
}

}  // namespace tapestry::test
