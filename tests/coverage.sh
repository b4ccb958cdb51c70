#!/usr/bin/env bash
# Builds Tapestry with coverage counters, runs all its tests and prints which lines of the library
# they reach, folder by folder: tests/coverage.sh
# Exits with 1 if less than 95 % of autograd/ or of layers/ is reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wanted=95
build=.build/coverage
counts=$build/coverage.json

if ! command -v gcovr >/dev/null; then
  echo 'coverage.sh: gcovr was not found, expected it on the PATH' >&2
  echo 'hint: apt-get install gcovr' >&2
  exit 2
fi

cmake --preset coverage
cmake --build --preset coverage --parallel "$(nproc)"
find "$build" -name '*.gcda' -delete
ctest --preset coverage
gcovr --root . --object-directory "$build" --filter '(autograd|layers|optim|data|train)/' \
  --json "$counts" "$build"

# percent FOLDER [MINIMUM]: the line coverage of a folder and all below it; fails below the minimum.
# gcovr deletes what --output names before it writes, so that must never be a device.
percent() {
  local status=0 summary
  summary=$(gcovr --root . --add-tracefile "$counts" --filter "$1/" --fail-under-line "${2:-0}" \
    --print-summary --output "$build/summary.txt" 2>"$build/gcovr.log") || status=$?
  printf '%-18s %s\n' "$1" "$(grep '^lines' <<<"$summary")"
  return "$status"
}

echo
too_low=()
for folder in autograd layers; do
  percent "$folder" "$wanted" || too_low+=("$folder")
done
for folder in autograd/ops autograd/kernels optim data train; do percent "$folder"; done

echo
echo 'not reached in autograd and layers (file, lines, reached, %, which):'
gcovr --root . --add-tracefile "$counts" --filter '(autograd|layers)/' --txt |
  awk '/\.(h|cpp) / && NF > 4'

if [ ${#too_low[@]} -gt 0 ]; then
  echo "coverage.sh: less than $wanted % of the lines reached in: ${too_low[*]}" >&2
  exit 1
fi
