#include "train/parallel/launch.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "data/io/utf8.h"
#include "train/error.h"
#include "train/parallel/mpi/plugin.h"
#include "train/parallel/supervisor.h"
#include "train/parallel/watchdog.h"
#include "train/platform/machine.h"
#include "train/platform/program_name.h"

namespace tapestry {
namespace {

constexpr const char* plugin_name = "libtapestry_mpi.so";

/// Where the plugin may be: beside the program in the build folder, where both are installed, and
/// where Tapestry was installed that a program of the user was linked with.
std::vector<std::filesystem::path> plugin_places() {
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  return {folder / plugin_name, folder.parent_path() / "lib/tapestry" / plugin_name,
          std::filesystem::path(TAPESTRY_PREFIX "/lib/tapestry") / plugin_name};
}

[[noreturn]] void refuse(const Launch& launch, const std::string& found, const std::string& hint) {
  throw UsageError(fmt::format("started as one of {} processes ({}): {}", launch.processes,
                               launch.launcher, found),
                   hint);
}

[[noreturn]] void refuse_without_plugin(const Launch& launch, const std::string& reason) {
  refuse(launch, fmt::format("MPI cannot be loaded: {}", reason),
         fmt::format("install the Debian package tapestry-mpi, or build {} where Open MPI is "
                     "installed (libopenmpi-dev), or start one process",
                     program_name()));
}

/// throws  UsageError if there is no plugin of this version of the program that can be loaded.
JoinProcesses* load_plugin(const Launch& launch) {
  std::error_code ignored;
  for (const std::filesystem::path& place : plugin_places()) {
    if (!std::filesystem::exists(place, ignored)) continue;
    // Global, because Open MPI loads parts of itself that use its symbols.
    void* const plugin = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (plugin == nullptr) refuse_without_plugin(launch, ::dlerror());
    const auto* const version = static_cast<const char* const*>(::dlsym(plugin, plugin_version));
    void* const join = ::dlsym(plugin, plugin_function);
    if (version == nullptr || join == nullptr || std::string_view(*version) != program_version) {
      refuse_without_plugin(
          launch, fmt::format("{} is not of version {}", escaped(place.string()), program_version));
    }
    return reinterpret_cast<JoinProcesses*>(join);
  }
  std::string places;
  for (const std::filesystem::path& place : plugin_places()) {
    places += fmt::format("{}{}", places.empty() ? "" : ", ", escaped(place.string()));
  }
  refuse_without_plugin(launch, fmt::format("found none of {}", places));
}

/// Connects the processes that the launcher has started.
std::unique_ptr<Transport> join_processes(const Launch& launch) {
  std::unique_ptr<Transport> transport(load_plugin(launch)());
  if (transport->size() == launch.processes) return transport;
  refuse(
      launch, fmt::format("MPI connects {} of them", transport->size()),
      "use the launcher of the MPI that the program was built with; with Slurm, srun --mpi=pmix");
}

/// The number that a text begins with; nullopt if it begins with none or is null.
std::optional<std::size_t> read_number(const char* value) {
  if (value == nullptr) return std::nullopt;
  const std::string_view text(value);
  std::size_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc() ? std::optional(number) : std::nullopt;
}

/// What connects the processes, up to the end of the program: a launcher ends all processes when
/// one of them ends with an error, and rank 0 has to print it before.
struct Connection {
  Connection() = default;
  /// The supervisor watches the time that MPI takes, which no Watchdog does any more.
  ~Connection() {
    watchdog.reset();
    if (state != nullptr) state->leave();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  SupervisedState* state = nullptr;
  std::unique_ptr<Transport> transport;
  std::vector<std::string> hosts;  ///< by rank
  std::optional<Watchdog> watchdog;
};

/// Ends all processes, because one of them hangs or its connection is lost.
void end_for_timeout(const Watchdog::Timeout& peer, const std::string& host,
                     std::chrono::seconds timeout, Connection& connection) {
  Transport& transport = *connection.transport;
  const std::string found =
      peer.has_ended
          ? fmt::format("it ended more than {} seconds ago after step {}, and rank {} still runs",
                        timeout.count(), peer.step, transport.rank())
          : fmt::format(
                "no heartbeat for {} seconds after step {}: the process hangs, or its "
                "connection is lost",
                timeout.count(), peer.step);
  const std::string text = fmt::format(
      "{}: error: rank {} on {}: {}\nhint: see whether its machine can be reached; resume the run "
      "with --resume, with any number of processes; TAPESTRY_PEER_TIMEOUT sets the limit\n",
      program_name(), peer.rank, host, found);
  std::fputs(text.c_str(), stderr);
  connection.state->phase = SupervisedState::Phase::leaving;  // in case the launcher hangs
  transport.abort(static_cast<int>(ExitCode::peer_failed));
}

/// While it is alive, an end of the process is not that of the program.
class ResultScope {
 public:
  explicit ResultScope(SupervisedState& state) : state_(state) {}
  ~ResultScope() { state_.has_result = true; }
  ResultScope(const ResultScope&) = delete;
  ResultScope& operator=(const ResultScope&) = delete;

 private:
  SupervisedState& state_;
};

}  // namespace

std::optional<Launch> read_launch(const std::function<const char*(const char*)>& get) {
  struct Variables {
    const char* size;
    const char* rank;
  };
  for (const auto& [size, rank] :
       {Variables{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
        Variables{"PMI_SIZE", "PMI_RANK"}, Variables{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}) {
    const auto processes = read_number(get(size));
    if (!processes) continue;
    // mpirun in a Slurm job starts its processes in a step of srun, which has other tasks.
    if (*processes < 2) return std::nullopt;
    return Launch{
        .launcher = size, .processes = *processes, .rank = read_number(get(rank)).value_or(0)};
  }
  return std::nullopt;
}

int run_launched_processes(const std::function<std::vector<EqualProperty>()>& properties,
                           const std::function<int(ProcessGroup& group)>& program) {
  const auto launch =
      read_launch([](const char* name) -> const char* { return std::getenv(name); });
  if (!launch) return program(single_process());
  const std::chrono::seconds timeout = read_peer_timeout(std::getenv("TAPESTRY_PEER_TIMEOUT"));
  // mpirun gives each process a terminal, also where its own output is a file.
  ::setenv("TERM", "dumb", 1);
  SupervisedState& state = continue_supervised(launch->rank, timeout);
  const ResultScope scope(state);
  static Connection connection;
  connection.state = &state;
  connection.transport = join_processes(*launch);
  Transport& transport = *connection.transport;
  state.rank = transport.rank();
  ProcessGroup group(transport, &state.step, timeout);
  connection.hosts = group.all_gather(host_name);
  connection.watchdog.emplace(
      transport, timeout, state.step, [timeout](const Watchdog::Timeout& peer) {
        end_for_timeout(peer, connection.hosts[peer.rank], timeout, connection);
      });
  state.phase = SupervisedState::Phase::running;
  return group.run([&] {
    require_equal_processes(group, properties);
    return program(group);
  });
}

}  // namespace tapestry
