#include "train/parallel/process_group.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>
#include <utility>

#include "autograd/anomaly.h"
#include "autograd/kernels/parallel.h"
#include "train/error.h"
#include "train/platform/exit_code.h"
#include "train/platform/machine.h"
#include "train/platform/message.h"
#include "train/platform/program_name.h"

namespace tapestry {
namespace {

constexpr const char* memory_hint =
    "start fewer processes on each machine, or take a smaller train.batch_size or model";

/// How the work of a process ended; a larger value goes before a smaller one.
enum class Ending : int { done, cancelled, anomaly, failed };

struct Outcome {
  Ending ending = Ending::done;
  std::string result{};  ///< or the message of the error
  std::string hint{};
  int code = 0;  ///< exit code of an error
};

Outcome outcome_of_error(const std::exception_ptr& thrown) {
  const ExitCode code = to_exit_code(thrown);
  const auto failed = [code](const std::string& message, const std::string& hint) {
    return Outcome{Ending::failed, message, hint, static_cast<int>(code)};
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const kernels::Cancelled&) {
    return {.ending = Ending::cancelled};
  } catch (const AnomalyError& error) {
    return {.ending = Ending::anomaly, .result = error.what()};
  } catch (const UserError& error) {
    return failed(error.what(), error.hint());
  } catch (const std::exception& error) {
    if (code == ExitCode::memory) return failed("the system has no more memory", memory_hint);
    return failed(error.what(), "please report it with the command line and the config");
  } catch (...) {
    return failed("an object was thrown that is not a std::exception", "");
  }
}

/// call  a number for the function that the process has called
std::string to_message(const Outcome& outcome, int call) {
  MessageWriter message;
  message.put(static_cast<int>(outcome.ending));
  message.put(call);
  message.put(outcome.result);
  if (outcome.ending == Ending::failed) {
    message.put(outcome.hint);
    message.put(outcome.code);
    message.put(host_name());
  }
  return message.take();
}

/// Throws what the process `rank` has thrown.
[[noreturn]] void throw_as(const std::string& message, std::size_t rank) {
  MessageReader reader(message);
  const auto ending = static_cast<Ending>(reader.get<int>());
  reader.get<int>();
  const std::string text(reader.get_text());
  if (ending == Ending::cancelled) throw kernels::Cancelled();
  if (ending == Ending::anomaly) throw AnomalyError(text);
  const std::string hint(reader.get_text());
  const auto code = static_cast<ExitCode>(reader.get<int>());
  throw PeerFailure(code, fmt::format("rank {} on {}: {}", rank, reader.get_text(), text), hint);
}

Ending read_ending(const std::string& message) {
  return static_cast<Ending>(MessageReader(message).get<int>());
}

int read_call(const std::string& message) {
  MessageReader reader(message);
  reader.get<int>();
  return reader.get<int>();
}

/// Before each message: shows whether the other process is the same program on the same kind of
/// machine.
struct Header {
  static constexpr std::uint64_t expected_mark = 0x7461706573747202;  // "tapestr", version 2

  std::uint64_t mark = expected_mark;
  std::uint64_t call = 0;  ///< number of the call that it belongs to, from 1
  std::uint64_t bytes = 0;
};

std::span<const std::byte> text_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

ProcessGroup::ProcessGroup(Transport& transport, std::atomic<std::uint64_t>* last_step,
                           std::chrono::seconds timeout)
    : transport_(&transport), last_step_(last_step), timeout_(timeout) {}

// ---- Work of all processes.

const char* ProcessGroup::call_name(Call call) {
  constexpr std::array names = {
      "all_gather", "all_gather with transfers", "together", "any_process", "broadcast",
      "on_rank_0",  "the end of the program"};
  return names.at(static_cast<std::size_t>(call));
}

std::vector<std::string> ProcessGroup::gather_results(Call call,
                                                      const std::function<std::string()>& work,
                                                      const std::function<void()>& abandon) {
  if (size() == 1) return {work()};
  Outcome mine;
  std::exception_ptr thrown;
  try {
    mine.result = work();
  } catch (...) {
    if (has_failed_) throw;  // all processes know
    thrown = std::current_exception();
    mine = outcome_of_error(thrown);
  }
  std::vector<std::string> messages;
  ++calls_;
  transfer([&] { messages = gather(to_message(mine, static_cast<int>(call))); });
  const auto worst = std::ranges::max_element(messages, {}, read_ending);
  const Ending ending = read_ending(*worst);
  // A process that fails says so in its next call, whichever the others make.
  if (ending != Ending::failed) require_same_call(messages);
  if (ending != Ending::done) {
    const bool all_have_transfers = std::ranges::all_of(messages, [&](const std::string& message) {
      return read_call(message) == static_cast<int>(call);
    });
    if (abandon && all_have_transfers) abandon();
    has_failed_ = ending == Ending::failed;
    const auto origin = static_cast<std::size_t>(worst - messages.begin());
    if (origin == rank()) std::rethrow_exception(thrown);
    throw_as(*worst, origin);
  }
  for (std::string& message : messages) {
    MessageReader reader(message);
    reader.get<int>();
    reader.get<int>();
    message = std::string(reader.get_text());
  }
  return messages;
}

/// throws  PeerFailure, in all processes, if one has called another function than rank 0.
void ProcessGroup::require_same_call(const std::vector<std::string>& messages) {
  const int expected = read_call(messages.front());
  const auto other = std::ranges::find_if(
      messages, [&](const std::string& message) { return read_call(message) != expected; });
  if (other == messages.end()) return;
  has_failed_ = true;
  throw PeerFailure(
      ExitCode::peer_failed,
      fmt::format("rank {}: found {} as call {} between the processes, expected {} as on rank 0: "
                  "the processes have decided differently",
                  other - messages.begin(), call_name(static_cast<Call>(read_call(*other))), calls_,
                  call_name(static_cast<Call>(expected))),
      "see whether all machines have the same files and environment variables");
}

void ProcessGroup::together(const std::function<void()>& work) {
  gather_results(Call::together, [&] {
    work();
    return std::string();
  });
}

bool ProcessGroup::any_process(bool mine) {
  if (size() == 1) return mine;
  const auto answers =
      gather_results(Call::any_process, [&] { return std::string(mine ? "yes" : ""); });
  return std::ranges::any_of(answers, [](const std::string& answer) { return !answer.empty(); });
}

std::string ProcessGroup::broadcast(const std::function<std::string()>& work) {
  return gather_results(Call::broadcast, [&] { return is_rank_0() ? work() : std::string(); })
      .front();
}

void ProcessGroup::on_rank_0(const std::function<void()>& work) {
  gather_results(Call::on_rank_0, [&] {
    if (is_rank_0()) work();
    return std::string();
  });
}

int ProcessGroup::run(const std::function<int()>& program) {
  int code = 0;
  try {
    gather_results(Call::end, [&] {
      code = program();
      return std::string();
    });
    return code;
  } catch (...) {
    if (is_rank_0()) throw;
    return outcome_of_error(std::current_exception()).code;
  }
}

void ProcessGroup::transfer(const std::function<void()>& transfers) {
  if (size() == 1) return transfers();
  try {
    transfers();
  } catch (...) {
    const Outcome error = outcome_of_error(std::current_exception());
    const std::string text = fmt::format("{}: error: rank {} on {}: {}\nhint: {}\n", program_name(),
                                         rank(), host_name(), error.result, error.hint);
    std::fputs(text.c_str(), stderr);
    transport_->abort(error.code);
  }
}

// ---- Messages.

/// The messages of all processes, which are collected in rank 0 over a binomial tree, and
/// distributed over the same tree.
std::vector<std::string> ProcessGroup::gather(std::string mine) {
  MessageWriter writer;
  writer.put(mine);
  std::string all = writer.take();
  std::size_t distance = 1;  // to the process that this one reports to
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
  const Header header{.call = calls_, .bytes = message.size()};
  const Transfer first = start_send(to, std::as_bytes(std::span(&header, 1)));
  const Transfer second = start_send(to, text_bytes(message));
  wait(first);
  wait(second);
}

std::string ProcessGroup::receive_message(std::size_t from) {
  Header header{};
  wait(start_receive(from, std::as_writable_bytes(std::span(&header, 1))));
  if (header.mark != Header::expected_mark) {
    throw PeerFailure(ExitCode::usage,
                      fmt::format("found messages of another program or byte order from rank {}, "
                                  "expected those of this one",
                                  from),
                      "start the same program on machines of the same kind");
  }
  if (header.call != calls_) {
    throw PeerFailure(ExitCode::peer_failed,
                      fmt::format("found a message of call {} between the processes from rank {}, "
                                  "expected call {}",
                                  header.call, from, calls_),
                      "please report it with the command line and the config");
  }
  std::string message(header.bytes, '\0');
  wait(start_receive(from, std::as_writable_bytes(std::span(message))));
  return message;
}

ProcessGroup::Transfer ProcessGroup::start_send(std::size_t to, std::span<const std::byte> bytes,
                                                Transport::Channel channel) {
  Transfer transfer;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), Transport::most_bytes))) {
    transfer.push_back(transport_->start_send(
        to, channel, bytes.first(std::min(bytes.size(), Transport::most_bytes))));
  }
  return transfer;
}

ProcessGroup::Transfer ProcessGroup::start_receive(std::size_t from, std::span<std::byte> bytes,
                                                   Transport::Channel channel) {
  Transfer transfer;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), Transport::most_bytes))) {
    transfer.push_back(transport_->start_receive(
        from, channel, bytes.first(std::min(bytes.size(), Transport::most_bytes))));
  }
  return transfer;
}

/// Gives way to other processes, which may need this processor to send what is waited for.
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

ProcessGroup& single_process() {
  static ProcessGroup group;
  return group;
}

MicroBatches micro_batch_range(std::size_t rank, std::size_t processes, std::size_t micro_batches) {
  return {.begin = micro_batches * rank / processes, .end = micro_batches * (rank + 1) / processes};
}

}  // namespace tapestry
