#!/usr/bin/env bash
# Prints how much of each reader the corpus reaches, in lines and branches, and writes the lines that
# it does not reach to .build/fuzz-coverage/missing.txt: tests/fuzz/coverage.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=.build/fuzz-coverage
.ci/packages.sh clang llvm
targets=(checkpoint config metrics text vocabulary)

cmake --preset fuzz -B "$build" -DTAPESTRY_SANITIZE=fuzzer-no-link \
  -DCMAKE_CXX_FLAGS='-Wno-unknown-warning-option -fprofile-instr-generate -fcoverage-mapping' >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]/#/fuzz_}"

programs=()
profiles=()
for target in "${targets[@]}"; do
  program=$build/tests/fuzz/fuzz_$target
  profile=$build/$target.profraw
  LLVM_PROFILE_FILE=$profile "$program" -runs=0 "tests/fuzz/corpus/$target" 2>/dev/null
  programs+=(-object "$program")
  profiles+=("$profile")
done
llvm-profdata merge -o "$build/all.profdata" "${profiles[@]}"

readers=(
  data/{characters,codec,escaped,letter_case,text_file,tokenizer,utf8,vocabulary,word_counter}.cpp
  train/checkpoint_{envelope,file,table}.cpp train/config{,_domains,_error,_reader,_rules,_text}.cpp
  train/{metrics,metrics_reader,snapshot,suggest,yaml_document,yaml_events}.cpp
)
llvm-cov report "${programs[@]}" -instr-profile="$build/all.profdata" \
  -show-region-summary=false "${readers[@]}"
llvm-cov show "${programs[@]}" -instr-profile="$build/all.profdata" "${readers[@]}" |
  grep -E '^/|^ +[0-9]+\| +0\|' >"$build/missing.txt" || true
