#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds Tapestry with coverage counters, runs its tests and prints which lines they reach.
#
#   tests/coverage.sh             all tests; the lines of every folder, then the readers as below
#   tests/coverage.sh readers     only the unit tests of data/ and train/; lines and branches of the
#                                 readers of checkpoints, configs and data
#
# Exits with 1 unless the tests reach 95 % of the lines of autograd/ and of layers/, and all lines
# and 95 % of the branches of the readers.
#
# Counts only branches in the source, not branches that the compiler adds for calls that may
# throw, nor unreachable branches.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wanted=95  # % of the lines of autograd/ and of layers/, and of the branches of the readers
readers='(data|train/config|train/checkpoint)/'
build=.build/coverage
counts=$build/coverage.json

if ! command -v gcovr >/dev/null; then
  echo 'coverage.sh: gcovr was not found, expected it on the PATH' >&2
  echo 'hint: apt-get install gcovr' >&2
  exit 2
fi

targets=() tests=()
if [ "${1:-}" = readers ]; then
  targets=(--target data_tests train_tests)
  tests=(--tests-regex '^(data|train|train_.*)$')
fi
cmake --preset coverage
cmake --build --preset coverage --parallel "$(nproc)" "${targets[@]}"
find "$build" -name '*.gcda' -delete
ctest --preset coverage "${tests[@]}"
gcovr --root . --object-directory "$build" --filter '(autograd|layers|optim|data|train)/' \
  --exclude-throw-branches --exclude-unreachable-branches --json "$counts" "$build"

# reached FILTER GCOVR_OPTION...: prints gcovr's summary of the matching files; fails if gcovr
# fails.
# gcovr deletes the file of --output before it writes, so the file must never be a device.
reached() {
  gcovr --root . --add-tracefile "$counts" --filter "$1" "${@:2}" --print-summary \
    --output "$build/summary.txt" 2>"$build/gcovr.log"
}

# percent FOLDER [MINIMUM]: prints the line coverage of a folder and its subfolders; fails if it is
# below MINIMUM.
percent() {
  local status=0 summary
  summary=$(reached "$1/" --fail-under-line "${2:-0}") || status=$?
  printf '%-18s %s\n' "$1" "$(grep '^lines' <<<"$summary")"
  return "$status"
}

# missed FILTER [GCOVR_OPTION]: prints the files with unreached lines or branches.
missed() {
  gcovr --root . --add-tracefile "$counts" --filter "$1" --txt "${@:2}" |
    awk '/\.(h|cpp) / && NF > 4'
}

too_low=()

library() {
  local folder
  echo
  for folder in autograd layers; do
    percent "$folder" "$wanted" || too_low+=("lines of $folder")
  done
  for folder in autograd/ops autograd/kernels optim data train; do percent "$folder"; done
  echo
  echo 'not reached in autograd and layers (file, lines, reached, %, which):'
  missed '(autograd|layers)/'
}

readers() {
  local summary
  echo
  echo 'readers of checkpoints, configs and data:'
  summary=$(reached "$readers" --fail-under-line 100 --fail-under-branch "$wanted") ||
    too_low+=('readers')
  grep -E '^(lines|branches)' <<<"$summary"
  echo 'lines not reached in them (file, lines, reached, %, which):'
  missed "$readers"
  echo 'lines with branches not reached in them (file, branches, reached, %, which):'
  missed "$readers" --branches
}

[ "${1:-}" = readers ] || library
readers

if [ ${#too_low[@]} -gt 0 ]; then
  printf 'coverage.sh: too low: %s\n' "${too_low[@]}" >&2
  exit 1
fi
