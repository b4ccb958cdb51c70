#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Prints the line and branch coverage that the corpus reaches in each reader, and writes the
# uncovered lines to .build/fuzz-coverage/missing.txt: tests/fuzz/coverage.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=.build/fuzz-coverage
.ci/packages.sh clang llvm

cmake --preset asan -B "$build" -DTAPESTRY_SANITIZE=fuzzer-no-link \
  -DCMAKE_CXX_FLAGS='-fprofile-instr-generate -fcoverage-mapping' >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target fuzz_replay

program=$build/tests/fuzz/fuzz_replay
LLVM_PROFILE_FILE=$build/corpus.profraw "$program" tests/fuzz/corpus/*.tar
llvm-profdata merge -o "$build/corpus.profdata" "$build/corpus.profraw"

# Reports only the readers, not the other code that is linked into the targets.
others='(tests|autograd|layers)/|\.h$|/(hdf5_.*|durable_file|file_system|config/file|config/listing)\.cpp$'
measured=("$program" -instr-profile="$build/corpus.profdata"
  -ignore-filename-regex="$others")
llvm-cov report "${measured[@]}" -show-region-summary=false
llvm-cov show "${measured[@]}" | grep -E '^/|^ +[0-9]+\| +0\|' >"$build/missing.txt" || true
