// SPDX-License-Identifier: BSD-3-Clause
#include "train/parallel/launch.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "data/io/number.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/program.h"
#include "train/parallel/transport.h"

namespace tapestry {
namespace {

constexpr const char* plugin_name = "libtapestry_mpi.so";

/// Paths of the plugin: next to the program, in the build folder; in the installation of the
/// program; in the installation of Tapestry that a user's program is linked with.
std::vector<std::filesystem::path> plugin_places() {
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  return {folder / plugin_name, folder.parent_path() / "lib/tapestry" / plugin_name,
          std::filesystem::path(TAPESTRY_PREFIX "/lib/tapestry") / plugin_name};
}

[[noreturn]] void reject(const Launch& launch, const std::string& found, const std::string& hint) {
  throw UsageError(fmt::format("started as one of {} processes ({}): {}", launch.processes,
                               launch.launcher, found),
                   hint);
}

[[noreturn]] void reject_without_plugin(const Launch& launch, const std::string& reason) {
  reject(launch, fmt::format("MPI cannot be loaded: {}", reason),
         fmt::format("install the Debian package tapestry-mpi, or build {} where Open MPI is "
                     "installed (libopenmpi-dev), or start one process",
                     program_name()));
}

/// throws  UsageError if no plugin exists.
std::filesystem::path find_plugin(const Launch& launch) {
  std::string places;
  for (const std::filesystem::path& place : plugin_places()) {
    std::error_code ignored;
    if (std::filesystem::exists(place, ignored)) return place;
    places += fmt::format("{}{}", places.empty() ? "" : ", ", escaped(place.string()));
  }
  reject_without_plugin(launch, fmt::format("found no file among {}", places));
}

/// throws  UsageError if no plugin of this version of the program can be loaded.
JoinProcesses* load_plugin(const Launch& launch) {
  const std::filesystem::path path = find_plugin(launch);
  // RTLD_GLOBAL, because Open MPI loads components that use its symbols.
  void* const plugin = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (plugin == nullptr) reject_without_plugin(launch, ::dlerror());
  const auto* const version = static_cast<const char* const*>(::dlsym(plugin, plugin_version));
  void* const join = ::dlsym(plugin, plugin_function);
  if (version == nullptr || join == nullptr || std::string_view(*version) != program_version) {
    reject_without_plugin(
        launch, fmt::format("{} is not of version {}", escaped(path.string()), program_version));
  }
  return reinterpret_cast<JoinProcesses*>(join);
}

/// Connects the processes that the launcher started.
std::unique_ptr<Transport> connect_by_mpi(const Launch& launch, std::chrono::seconds limit) {
  std::unique_ptr<Transport> transport(load_plugin(launch)(limit));
  if (transport->size() == launch.processes) return transport;
  reject(
      launch, fmt::format("MPI connects {} of them", transport->size()),
      "use the launcher of the MPI that the program was built with; with Slurm, srun --mpi=pmix");
}

/// Ends this process if it waits inside MPI_Init_thread or MPI_Finalize, which the watchdog does
/// not observe, for longer than the limit. The launcher then ends the other processes.
class Deadline {
 public:
  explicit Deadline(std::chrono::seconds limit) {
    std::signal(SIGALRM, end_process);
    ::alarm(static_cast<unsigned>(limit.count()));
  }
  ~Deadline() { ::alarm(0); }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  /// Async-signal-safe.
  static void end_process(int /*signal*/) {
    constexpr std::string_view text =
        "tapestry: error: timeout while connecting to the other processes or disconnecting from "
        "them\nhint: another process was not started, hangs or cannot be reached; see the messages "
        "of the other processes; TAPESTRY_PEER_TIMEOUT sets the limit\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    ::_exit(static_cast<int>(ExitCode::peer_failed));
  }
};

/// Keeps the processes connected until the end of the program. A launcher ends all processes when
/// one of them ends with an error, so the error must be printed first.
struct Connection {
  Connection(const Launch& launch, std::chrono::seconds limit) : timeout(limit) {
    const Deadline deadline(timeout);
    transport = connect_by_mpi(launch, timeout);
    group.emplace(*transport, timeout);
  }
  ~Connection() {
    if (failure) transport->abort(static_cast<int>(*failure));
    const Deadline deadline(timeout);
    transport.reset();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  std::chrono::seconds timeout;
  std::unique_ptr<Transport> transport;
  std::optional<ProcessGroup> group;
  std::optional<ExitCode> failure;
};

std::unique_ptr<Connection>& connection() {
  static std::unique_ptr<Connection> connected;
  return connected;
}

}  // namespace

std::optional<Launch> read_launch(const std::function<const char*(const char*)>& get) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* const value = get(name);
    const auto processes = value ? parse_number<std::size_t>(value) : std::nullopt;
    if (!processes) continue;
    // The first variable has precedence: in a Slurm job, mpirun starts its processes in a step of
    // srun with a different number of tasks.
    if (*processes < 2) return std::nullopt;
    return Launch{.launcher = name, .processes = *processes};
  }
  return std::nullopt;
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

ProcessGroup& join_processes() {
  const auto launch =
      read_launch([](const char* name) -> const char* { return std::getenv(name); });
  if (!launch) return single_process();
  connection() = std::make_unique<Connection>(
      *launch, read_peer_timeout(std::getenv("TAPESTRY_PEER_TIMEOUT")));
  return *connection()->group;
}

void abort_all_at_exit() {
  if (connection() == nullptr) return;
  connection()->failure = to_exit_code(std::current_exception());
  const ProcessGroup& group = *connection()->group;
  if (group.is_rank_0()) return;
  constexpr std::chrono::seconds head_start_of_rank_0(2);
  std::this_thread::sleep_for(head_start_of_rank_0);
  std::fputs(fmt::format("{}: rank {} on {} has failed and ends all processes\n", program_name(),
                         group.rank(), host_name())
                 .c_str(),
             stderr);
}

}  // namespace tapestry
