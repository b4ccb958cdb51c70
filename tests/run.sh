#!/usr/bin/env bash
# Builds Tapestry and runs all its tests, from nothing: tests/run.sh [PRESET]
# PRESET is release (the default), debug, asan or tsan; see CMakePresets.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
.ci/packages.sh
cmake --preset "$preset" ${CI:+-DTAPESTRY_WERROR=ON}
cmake --build --preset "$preset" --parallel "$(nproc)"
ctest --preset "$preset"
