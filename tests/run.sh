#!/usr/bin/env bash
# Builds Tapestry and runs all its tests, from nothing: tests/run.sh [PRESET]
# PRESET is release (the default), debug, asan or tsan; see CMakePresets.json. With the last two it
# is the unit tests alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
packages=()
[ "$preset" != asan ] || packages=(clang libclang-rt-dev)
# For tests that are skipped without them.
[ -z "${CI:-}" ] || packages+=(fish mandoc python3-h5py zsh)
.ci/packages.sh "${packages[@]}"
cmake --preset "$preset" ${CI:+-DTAPESTRY_WERROR=ON}
cmake --build --preset "$preset" --parallel "$(nproc)"
ctest --preset "$preset" --parallel "$(nproc)"
