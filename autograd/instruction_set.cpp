// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/instruction_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/environment.h"
#include "autograd/kernels/registry.h"

// TAPESTRY_KERNEL_SETS, from CMake: SET(baseline) SET(avx2) ... of this build.
#define SET(name)                     \
  namespace tapestry::kernels::name { \
  extern const KernelTable table;     \
  }
TAPESTRY_KERNEL_SETS
#undef SET

namespace tapestry {
namespace {

#define SET(name) std::string_view(#name),
constexpr std::array compiled{TAPESTRY_KERNEL_SETS};
#undef SET
#define SET(name) &kernels::name::table,
constexpr std::array tables{TAPESTRY_KERNEL_SETS};
#undef SET
constexpr std::size_t none = compiled.size();
constexpr const char* variable = "TAPESTRY_KERNELS";

std::size_t in_use = 0;

std::size_t find_index(std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(compiled, name) - compiled.begin());
}

bool can_execute(std::string_view name) {
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (name == "avx2") return has_avx2;
  if (name == "avx512") {
    return has_avx2 && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512cd") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  }
#endif
  return find_index(name) != none;
}

std::size_t widest() {
  std::size_t found = 0;
  for (std::size_t i = 0; i < compiled.size(); ++i) {
    if (can_execute(compiled[i])) found = i;
  }
  return found;
}

std::vector<std::string_view> executable() {
  std::vector<std::string_view> names;
  std::ranges::copy_if(compiled, std::back_inserter(names), can_execute);
  return names;
}

/// Warns about the environment variable. Called before main(), so it must not allocate.
void warn_of_choice(const char* wanted, std::string_view used) {
  std::fprintf(stderr, "tapestry: warning: environment variable %s: found ", variable);
  kernels::print_escaped(wanted);
  std::fputs(", expected one of", stderr);
  for (const std::string_view name : compiled) {
    if (can_execute(name)) std::fprintf(stderr, " %s", name.data());
  }
  std::fprintf(stderr, "; using %s\n", used.data());
}

void switch_to(std::size_t set) {
  kernels::table_in_use = *tables[set];
  in_use = set;
}

/// Called before main() and before the constructors of global objects, which may use kernels.
[[gnu::constructor(101)]] void choose_kernels() {
#if defined(__x86_64__)
  __builtin_cpu_init();
#endif
  const char* const wanted = std::getenv(variable);
  if (wanted == nullptr || *wanted == '\0') return switch_to(widest());
  const std::size_t set = find_index(wanted);
  if (set != none && can_execute(wanted)) return switch_to(set);
  switch_to(widest());
  warn_of_choice(wanted, compiled[in_use]);
}

}  // namespace

constinit kernels::KernelTable kernels::table_in_use{};

std::span<const std::string_view> compiled_kernels() { return compiled; }

bool processor_can_execute(std::string_view name) { return can_execute(name); }

void use_kernels(std::string_view name) {
  if (name == "auto") {
    const char* const wanted = std::getenv(variable);
    const std::size_t set = wanted == nullptr ? none : find_index(wanted);
    return switch_to(set != none && can_execute(wanted) ? set : widest());
  }
  const std::size_t set = find_index(name);
  if (set == none) {
    throw ValueError(
        fmt::format("use_kernels: found \"{}\", expected auto or a set of this build: {}", name,
                    fmt::join(compiled, ", ")));
  }
  if (!can_execute(name)) {
    throw ValueError(fmt::format(
        "use_kernels: found \"{}\", which this processor cannot execute; expected auto or "
        "one of {}",
        name, fmt::join(executable(), ", ")));
  }
  switch_to(set);
}

std::string_view kernels_in_use() { return compiled[in_use]; }

}  // namespace tapestry
