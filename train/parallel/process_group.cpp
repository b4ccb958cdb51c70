// SPDX-License-Identifier: BSD-3-Clause
#include "train/parallel/process_group.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>

#include "autograd/anomaly.h"
#include "autograd/kernels/parallel.h"
#include "data/io/utf8.h"
#include "train/base/program.h"
#include "train/system/message.h"

namespace tapestry {
namespace {

/// The outcome of the work of a process. The maximum over all processes is the common outcome.
enum class Ending : int { done, cancelled, anomaly };

/// A message that reports the work of a process to the other processes.
struct Outcome {
  Ending ending = Ending::done;
  std::string call{};    ///< function that the process called
  std::string result{};  ///< result, or message of the anomaly
};

std::string to_message(const Outcome& outcome) {
  MessageWriter message;
  message.put(static_cast<int>(outcome.ending));
  message.put(outcome.call);
  message.put(outcome.result);
  return message.take();
}

Outcome to_outcome(const std::string& message) {
  MessageReader reader(message);
  Outcome outcome{.ending = static_cast<Ending>(reader.get<int>())};
  outcome.call = reader.get_text();
  outcome.result = reader.get_text();
  return outcome;
}

/// throws  PeerFailure, in all processes, if a process called a different function than rank 0.
void require_same_call(const std::vector<Outcome>& outcomes) {
  const std::string& expected = outcomes.front().call;
  const auto other = std::ranges::find_if(
      outcomes, [&](const Outcome& outcome) { return outcome.call != expected; });
  if (other == outcomes.end()) return;
  throw PeerFailure(ExitCode::peer_failed,
                    fmt::format("rank {}: found a call of {}, expected {} as on rank 0: the "
                                "processes have made different decisions",
                                other - outcomes.begin(), other->call, expected),
                    "check that all machines have the same files and environment variables");
}

/// The first line of `text` that differs from `other`; empty if `text` is shorter.
std::string first_other_line(std::string_view text, std::string_view other) {
  const auto differs =
      static_cast<std::size_t>(std::ranges::mismatch(text, other).in1 - text.begin());
  text.remove_prefix(text.substr(0, differs).rfind('\n') + 1);
  text = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return escaped(std::string(text));
}

/// Calls start(part) for consecutive parts of at most Transport::max_bytes bytes.
template <class Bytes, class Start>
ProcessGroup::Transfer start_in_parts(Bytes bytes, const Start& start) {
  ProcessGroup::Transfer transfer;
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), Transport::max_bytes);
    transfer.push_back(start(bytes.first(size)));
    bytes = bytes.subspan(size);
  }
  return transfer;
}

}  // namespace

// ---- Work of all processes.

std::vector<std::string> ProcessGroup::all_gather(const std::function<std::string()>& work,
                                                  const std::function<void()>& abandon,
                                                  const char* call) {
  if (size() == 1) return {work()};
  Outcome mine{.call = call};
  try {
    mine.result = work();
  } catch (const kernels::Cancelled&) {
    mine.ending = Ending::cancelled;
  } catch (const AnomalyError& error) {
    mine.ending = Ending::anomaly;
    mine.result = error.what();
  }
  std::vector<Outcome> outcomes;
  for (const std::string& message : gather(to_message(mine))) {
    outcomes.push_back(to_outcome(message));
  }
  require_same_call(outcomes);
  const auto worst = std::ranges::max_element(outcomes, {}, &Outcome::ending);
  if (worst->ending != Ending::done && abandon) abandon();
  if (worst->ending == Ending::cancelled) throw kernels::Cancelled();
  if (worst->ending == Ending::anomaly) throw AnomalyError(worst->result);
  std::vector<std::string> results;
  for (Outcome& outcome : outcomes) results.push_back(std::move(outcome.result));
  return results;
}

void ProcessGroup::together(const std::function<void()>& work) {
  const auto without_result = [&] {
    work();
    return std::string();
  };
  all_gather(without_result, nullptr, "together");
}

bool ProcessGroup::any_process(bool mine) {
  const auto answers =
      all_gather([&] { return std::string(mine ? "yes" : ""); }, nullptr, "any_process");
  return std::ranges::any_of(answers, [](const std::string& answer) { return !answer.empty(); });
}

std::string ProcessGroup::broadcast(const std::function<std::string()>& work) {
  const auto in_rank_0 = [&] { return is_rank_0() ? work() : std::string(); };
  return all_gather(in_rank_0, nullptr, "broadcast").front();
}

void ProcessGroup::on_rank_0(const std::function<void()>& work) {
  const auto in_rank_0 = [&] {
    if (is_rank_0()) work();
    return std::string();
  };
  all_gather(in_rank_0, nullptr, "on_rank_0");
}

void ProcessGroup::require_equal(const char* what, const std::function<std::string()>& text,
                                 ExitCode code) {
  if (size() == 1) return;
  const auto texts = all_gather(text, nullptr, "require_equal");
  const auto other =
      std::ranges::find_if(texts, [&](const std::string& found) { return found != texts.front(); });
  if (other == texts.end()) return;
  const auto hosts = all_gather(host_name, nullptr, "require_equal");
  const auto rank = static_cast<std::size_t>(other - texts.begin());
  throw PeerFailure(code,
                    fmt::format("rank {} on {}: {}: found `{}`, expected `{}` as on rank 0, {}",
                                rank, hosts[rank], what, first_other_line(*other, texts.front()),
                                first_other_line(texts.front(), *other), hosts.front()),
                    "start the same program with the same arguments and files on all machines");
}

// ---- Messages.

/// The messages of all processes. Collected in rank 0 over a binomial tree, and distributed over
/// the same tree.
std::vector<std::string> ProcessGroup::gather(const std::string& mine) {
  MessageWriter writer;
  writer.put(mine);
  std::string all = writer.take();
  std::size_t distance = 1;  // difference in rank to the parent in the tree
  for (; distance < size() && rank() % (2 * distance) == 0; distance *= 2) {
    if (rank() + distance < size()) all += receive_message(rank() + distance);
  }
  if (!is_rank_0()) {
    send_message(rank() - distance, all);
    all = receive_message(rank() - distance);
  }
  while (distance > 1) {
    distance /= 2;
    if (rank() + distance < size()) send_message(rank() + distance, all);
  }
  std::vector<std::string> messages;
  for (MessageReader reader(all); !reader.at_end();) messages.emplace_back(reader.get_text());
  return messages;
}

void ProcessGroup::send_message(std::size_t to, const std::string& message) {
  const std::uint64_t size = message.size();
  wait({start_send(to, std::as_bytes(std::span(&size, 1))),
        start_send(to, std::as_bytes(std::span(message)))});
}

std::string ProcessGroup::receive_message(std::size_t from) {
  std::uint64_t size = 0;
  wait(start_receive(from, std::as_writable_bytes(std::span(&size, 1))));
  std::string message(size, '\0');
  wait(start_receive(from, std::as_writable_bytes(std::span(message))));
  return message;
}

ProcessGroup::Transfer ProcessGroup::start_send(std::size_t to, std::span<const std::byte> bytes,
                                                Transport::Channel channel) {
  return start_in_parts(bytes, [&](std::span<const std::byte> part) {
    return transport_->start_send(to, channel, part);
  });
}

ProcessGroup::Transfer ProcessGroup::start_receive(std::size_t from, std::span<std::byte> bytes,
                                                   Transport::Channel channel) {
  return start_in_parts(bytes, [&](std::span<std::byte> part) {
    return transport_->start_receive(from, channel, part);
  });
}

/// Yields to other processes, because the sender may need this processor.
void ProcessGroup::wait(const Transfer& transfer) {
  constexpr std::size_t yields = 200;
  for (const Transport::Request request : transfer) {
    for (std::size_t looks = 0; !transport_->is_done(request); ++looks) {
      if (looks < yields) {
        ::sched_yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }
}

void ProcessGroup::wait(const std::vector<Transfer>& transfers) {
  for (const Transfer& transfer : transfers) wait(transfer);
}

ProcessGroup& single_process() {
  static ProcessGroup group;
  return group;
}

}  // namespace tapestry
