#!/usr/bin/env bash
# Prints how much of each reader the corpus reaches, in lines and branches, and writes the lines that
# it does not reach to .build/fuzz-coverage/missing.txt: tests/fuzz/coverage.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=.build/fuzz-coverage
.ci/packages.sh clang llvm
targets=(config examples images labels metrics npy subwords tags text vocabulary)

cmake --preset asan -B "$build" -DTAPESTRY_SANITIZE=fuzzer-no-link \
  -DCMAKE_CXX_FLAGS='-Wno-unknown-warning-option -fprofile-instr-generate -fcoverage-mapping' >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]/#/fuzz_}"

programs=()
profiles=()
for target in "${targets[@]}"; do
  program=$build/tests/fuzz/fuzz_$target
  profile=$build/$target.profraw
  LLVM_PROFILE_FILE=$profile "$program" -runs=0 "tests/fuzz/corpus/$target" 2>/dev/null
  programs+=("$program")
  profiles+=("$profile")
done
llvm-profdata merge -o "$build/all.profdata" "${profiles[@]}"

# Only readers, without what the targets only link with.
others='(tests|autograd|layers)/|\.h$|/(hdf5_.*|durable_file|file_system|config/file|config/listing)\.cpp$'
# The first program is another kind of argument.
measured=("${programs[0]}" "${programs[@]/#/-object=}" -instr-profile="$build/all.profdata"
  -ignore-filename-regex="$others")
llvm-cov report "${measured[@]}" -show-region-summary=false
llvm-cov show "${measured[@]}" | grep -E '^/|^ +[0-9]+\| +0\|' >"$build/missing.txt" || true
