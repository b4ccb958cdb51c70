// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tapestry {

/// Moves bytes between the processes of a run, which are numbered from 0: their ranks. ProcessGroup
/// defines the meaning of the messages.
///
/// Two messages from one process to another on one channel arrive in the order in which they were
/// sent. Transfers on the channel `gradients` proceed while the process computes, without further
/// calls, if the implementation supports it. Several threads may use a transport at the same time.
class Transport {
 public:
  /// Messages on different channels do not wait for each other.
  enum class Channel : int { data = 0, gradients = 1 };
  /// A transfer in progress.
  using Request = std::uint64_t;
  /// The maximum size of a transfer, in bytes.
  static constexpr std::size_t max_bytes = std::size_t{1} << 30;

  /// All processes must destroy their transports, after the last message.
  virtual ~Transport() = default;

  /// The number of this process, from 0.
  virtual std::size_t rank() const = 0;
  /// Number of processes.
  virtual std::size_t size() const = 0;

  /// Begins to send `bytes`, which must not change until the transfer is done.
  virtual Request start_send(std::size_t to, Channel channel, std::span<const std::byte> bytes) = 0;
  /// Begins to receive a message of exactly this size.
  virtual Request start_receive(std::size_t from, Channel channel, std::span<std::byte> bytes) = 0;
  /// Whether a transfer is done; a request that is done must not be used again. Never waits.
  virtual bool is_done(Request request) = 0;

  /// Ends all processes immediately. This process has the exit code `code`.
  [[noreturn]] virtual void abort(int code) = 0;

 protected:
  Transport() = default;
  Transport(const Transport&) = default;
  Transport& operator=(const Transport&) = default;
};

// ---- Symbols of libtapestry_mpi.so. Only this shared object calls MPI, so that the program runs
// on machines without MPI.

/// Connects this process with the other processes that the launcher started. The caller owns the
/// transport; its destructor waits until the other processes destroy their transports. Until then,
/// a watchdog ends all processes if a process does not answer for `limit`.
using JoinProcesses = Transport*(std::chrono::seconds limit);

/// The symbol of the plugin's function of type JoinProcesses.
inline constexpr const char* plugin_function = "tapestry_join_processes";
/// The symbol of the plugin's `const char*` with the version of the program that it belongs to.
inline constexpr const char* plugin_version = "tapestry_plugin_version";

}  // namespace tapestry
