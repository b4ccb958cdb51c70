#include "train/parallel/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "data/io/number.h"
#include "data/io/utf8.h"
#include "train/error.h"
#include "train/platform/blocked_signals.h"

namespace tapestry {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// The last heartbeat of a process that ends.
constexpr std::uint64_t goodbye = ~std::uint64_t{0};

/// A process that this one exchanges heartbeats with.
struct Peer {
  Peer(Transport& network, std::size_t number)
      : transport(network), rank(number), heard(Clock::now()) {
    begin_to_listen();
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void begin_to_listen() {
    incoming = transport.start_receive(rank, Transport::Channel::heartbeat,
                                       std::as_writable_bytes(std::span(&received, 1)));
  }

  void listen() {
    while (incoming && transport.is_done(*incoming)) {
      heard = Clock::now();
      incoming.reset();
      if (received == goodbye) return;
      step = received;
      begin_to_listen();
    }
  }

  /// Whether the last heartbeat is still on its way to the peer, which may hang.
  bool is_sending() {
    if (outgoing && transport.is_done(*outgoing)) outgoing.reset();
    return outgoing.has_value();
  }

  /// Whether it has said that it ends.
  bool has_ended() const { return !incoming; }

  void send(std::uint64_t sign) {
    sent = sign;
    outgoing = transport.start_send(rank, Transport::Channel::heartbeat,
                                    std::as_bytes(std::span(&sent, 1)));
  }

  Transport& transport;
  std::size_t rank;
  Clock::time_point heard;
  std::uint64_t step = 0, received = 0, sent = 0;
  std::optional<Transport::Request> incoming, outgoing;
};

using Peers = std::vector<std::unique_ptr<Peer>>;

/// Rank 0 listens to all others, and these to rank 0.
Peers make_peers(Transport& transport) {
  Peers peers;
  if (transport.rank() != 0) {
    peers.push_back(std::make_unique<Peer>(transport, 0));
    return peers;
  }
  for (std::size_t rank = 1; rank < transport.size(); ++rank) {
    peers.push_back(std::make_unique<Peer>(transport, rank));
  }
  return peers;
}

/// Sends a heartbeat to those that have received the last one. Returns whether all have.
bool send_to_all(const Peers& peers, std::uint64_t sign) {
  bool all = true;
  for (const auto& peer : peers) {
    if (peer->is_sending()) {
      all = false;
    } else if (peer->sent != goodbye) {
      peer->send(sign);
    }
  }
  return all;
}

/// Whether all have sent their goodbye and received what was sent to them.
bool have_left(const Peers& peers) {
  return std::ranges::all_of(
      peers, [](const auto& peer) { return peer->has_ended() && !peer->is_sending(); });
}

}  // namespace

Watchdog::Watchdog(Transport& transport, std::chrono::milliseconds limit,
                   const std::atomic<std::uint64_t>& step, Alarm alarm)
    : transport_(transport), limit_(limit), step_(step), alarm_(std::move(alarm)) {
  const BlockedSignals blocked;  // signals go to the thread that trains
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  ends_ = true;
  thread_.join();
}

void Watchdog::watch() {
  const auto interval = std::min<std::chrono::milliseconds>(limit_ / 8, std::chrono::seconds(1));
  // Rank 0 reports a process that hangs; the others wait longer, and report rank 0 if it hangs.
  const auto timeout =
      limit_ + interval * static_cast<int>(std::min<std::size_t>(transport_.rank(), 8));
  const Peers peers = make_peers(transport_);
  Clock::time_point looked = Clock::now(), sent = looked - interval;
  bool has_left = false;
  while (!has_left || !have_left(peers)) {
    const Clock::time_point now = Clock::now();
    const bool ends = ends_;
    const bool was_stopped = now - looked > limit_ / 2;
    looked = now;
    for (const auto& peer : peers) {
      if (was_stopped) peer->heard = now;
      peer->listen();
      const bool is_done = ends && peer->has_ended() && !peer->is_sending();
      if (is_done || now - peer->heard <= timeout) continue;
      return alarm_({.rank = peer->rank, .step = peer->step, .has_ended = peer->has_ended()});
    }
    if (!has_left && (ends || now - sent >= interval)) {
      has_left = send_to_all(peers, ends ? goodbye : step_.load()) && ends;
      sent = now;
    }
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(interval / 8, 20ms));
  }
}

std::chrono::seconds read_peer_timeout(const char* text) {
  if (text == nullptr || *text == '\0') return std::chrono::seconds(60);
  const std::string_view value(text);
  const int seconds = parse_number<int>(value).value_or(0);
  if (seconds < 1 || seconds > 86400) {
    throw UsageError(fmt::format("TAPESTRY_PEER_TIMEOUT: found `{}`, expected a whole number of "
                                 "seconds from 1 to 86400",
                                 escaped(std::string(value))),
                     "unset the variable for the default, 60");
  }
  return std::chrono::seconds(seconds);
}

}  // namespace tapestry
