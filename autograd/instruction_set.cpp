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

namespace tapestry {
namespace {

constexpr std::array compiled = std::to_array<std::string_view>({TAPESTRY_KERNELS});
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

/// Warns about the environment variable. Called before main(), so that nothing may be allocated.
void warn_of_choice(const char* wanted, std::string_view used) {
  std::fprintf(stderr, "tapestry: warning: environment variable %s: found %s, expected one of",
               variable, wanted);
  for (const std::string_view name : compiled) {
    if (can_execute(name)) std::fprintf(stderr, " %s", name.data());
  }
  std::fprintf(stderr, "; using %s\n", used.data());
}

}  // namespace

#if defined(TAPESTRY_SEVERAL_KERNELS)

// Made by .cmake/link_kernels.cmake.
extern "C" {
extern const std::size_t tapestry_kernel_count;
extern void* tapestry_kernel_slots[];
extern void* const* const tapestry_kernel_tables[];
}

namespace {

void switch_to(std::size_t set) {
  std::copy_n(tapestry_kernel_tables[set], tapestry_kernel_count, tapestry_kernel_slots);
  in_use = set;
}

}  // namespace

/// Called before main() and before the constructors of global objects, which may use kernels.
extern "C" void tapestry_choose_kernels() {
  __builtin_cpu_init();
  const char* const wanted = std::getenv(variable);
  if (wanted == nullptr || *wanted == '\0') return switch_to(widest());
  const std::size_t set = find_index(wanted);
  if (set != none && can_execute(wanted)) return switch_to(set);
  switch_to(widest());
  warn_of_choice(wanted, compiled[in_use]);
}

#else

namespace {

void switch_to(std::size_t set) { in_use = set; }

/// There is no choice in a build with one set of kernels.
[[maybe_unused]] const bool warned = [] {
  const char* const wanted = std::getenv(variable);
  const bool other = wanted != nullptr && *wanted != '\0' && find_index(wanted) == none;
  if (other) warn_of_choice(wanted, compiled[0]);
  return other;
}();

}  // namespace

#endif

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
        fmt::format("use_kernels: found \"{}\", expected auto or one that this build has: {}", name,
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
