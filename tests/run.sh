#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the required packages, builds Tapestry and tests it:
#   tests/run.sh [PRESET]          what a contributor runs before a commit: unit tests and examples
#   tests/run.sh --full [PRESET]   all tests of the preset, as CI does
# PRESET is release (the default), debug, asan or tsan; see CMakePresets.json. With the last two only
# the unit tests run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

full=false
[ "${1:-}" != --full ] || { full=true; shift; }
preset=${1:-release}

packages=()
[ "$preset" != asan ] || packages+=(clang libclang-rt-dev)
# Tests that need one of these packages are skipped if it is missing.
! $full || packages+=(doxygen fish help2man python3-h5py zsh)
.ci/packages.sh "${packages[@]}"

cmake --preset "$preset" ${CI:+-DTAPESTRY_WERROR=ON}
target=quick_tests labels=(-L '^(unit|quick)$')
if $full; then target=all labels=(); fi
case "$preset" in asan | tsan) target=unit_tests labels=() ;; esac
cmake --build --preset "$preset" --target "$target" --parallel "$(nproc)"
ctest --preset "$preset" --parallel "$(nproc)" "${labels[@]}"
