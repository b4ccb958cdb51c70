// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

/// In a build with mutants, turns on the mutant that the environment variable TAPESTRY_MUTANT names
/// when the program starts. `weave.py` includes this in every file with a mutant.
namespace tapestry::mutants {

/// FNV-1a, 32 bits.
constexpr std::uint32_t hash(std::string_view name) {
  std::uint32_t h = 0x811c9dc5U;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x01000193U;
  return h;
}

inline std::string_view chosen_name() {
  const char* const name = std::getenv("TAPESTRY_MUTANT");
  return name == nullptr ? "" : name;
}

inline const std::uint32_t chosen = hash(chosen_name());

/// A name, hashed by the compiler.
struct Name {
  consteval Name(const char* name) : id(hash(name)) {}
  std::uint32_t id;
};

inline bool on(Name mutant) { return chosen == mutant.id; }

/// Ends the program if TAPESTRY_MUTANT is set to a name that is not in `names`. Otherwise returns
/// true, so that an initializer can call it.
inline bool require_known(std::initializer_list<std::string_view> names) {
  const std::string_view name = chosen_name();
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return true;
  std::fprintf(stderr,
               "TAPESTRY_MUTANT is %s, expected a name from the lists of tests/mutants/run.py\n",
               name.data());
  std::_Exit(2);
}

}  // namespace tapestry::mutants
