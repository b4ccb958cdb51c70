#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Fuzzes the readers of untrusted files, one target per core at a time:
#   tests/fuzz/run.sh [SECONDS [TARGET...]]   fuzzes each target, by default for 60 s; full run: 1800
#   tests/fuzz/run.sh --merge [TARGET...]     adds inputs that reach new code to the corpus in git
# Exits with 1 if there is a finding. The next run continues with the inputs of this run, which are in
# .build/asan/fuzz/corpus.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=.build/asan
corpus=tests/fuzz/corpus
work=$build/fuzz/corpus
seeds=$build/fuzz/seeds
findings=$build/fuzz/findings
archives=("$corpus"/*.tar)
targets=("${archives[@]##*/}")
targets=("${targets[@]%.tar}")

seconds=${1:-60}
if [[ ! $seconds =~ ^([1-9][0-9]*|--merge)$ ]]; then
  echo "run.sh: found '$seconds', expected a number of seconds or --merge" >&2
  exit 2
fi
[ $# -eq 0 ] || shift
[ $# -eq 0 ] || targets=("$@")

.ci/packages.sh clang libclang-rt-dev
cmake --preset asan ${CI:+-DTAPESTRY_WERROR=ON} >/dev/null
cmake --build --preset asan --parallel "$(nproc)" --target "${targets[@]/#/fuzz_}"

# unpack TARGET: extracts the corpus to $seeds/TARGET, because libFuzzer reads files.
unpack() {
  rm -rf "${seeds:?}/$1"
  mkdir -p "$seeds/$1" "$work/$1" "$findings/$1"
  tar -xf "$corpus/$1.tar" -C "$seeds/$1"
}

# fuzz TARGET ARGUMENT...: inputs are a few kilobytes long, so 512 MB in total or 128 MB in one
# allocation are a finding. The target itself reports 5 s of processor time as a finding; -timeout
# detects hangs.
fuzz() {
  local target=$1
  shift
  ASAN_OPTIONS=quarantine_size_mb=16:${ASAN_OPTIONS:-} "$build/tests/fuzz/fuzz_$target" \
    -rss_limit_mb=512 -malloc_limit_mb=128 -timeout=300 -max_len=8192 "$@"
}

# Counts only edges, not how often each is taken, to keep the corpus small.
if [ "$seconds" = --merge ]; then
  for target in "${targets[@]}"; do
    unpack "$target"
    fuzz "$target" -merge=1 -use_counters=0 "$seeds/$target" "$work/$target" 2>&1 |
      sed -n "s/^MERGE-OUTER: \(.* new files.*\)/$target: \1/p"
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar \
      -cf "$corpus/$target.tar" -C "$seeds/$target" .
  done
  exit
fi

# number PREFIX LOG: prints the number after PREFIX on the last line that starts with PREFIX.
number() { sed -n "s/^$1 *\([0-9]*\).*/\1/p" "$2" | tail -1; }

row='%-12s %14s %8s %8s %8s %9s\n'
TIMEFORMAT='%U %S'

# fuzz_for_a_while TARGET: fuzzes and prints a row of results; fails if there is a finding.
fuzz_for_a_while() {
  local target=$1 log=$build/fuzz/$1.log dictionary=() status=0 cpu
  unpack "$target"
  [ ! -f "tests/fuzz/$target.dict" ] || dictionary=(-dict="tests/fuzz/$target.dict")
  cpu=$({ time fuzz "$target" -max_total_time="$seconds" -print_final_stats=1 \
    "${dictionary[@]}" -artifact_prefix="$findings/$target/" "$work/$target" "$seeds/$target" \
    >"$log" 2>&1; } 2>&1) || status=$?
  printf "$row" "$target" "$(number stat::number_of_executed_units: "$log")" \
    "$(awk '{printf "%.0f", $1 + $2}' <<<"$cpu")" "$(number '#[0-9]*.* cov:' "$log")" \
    "$(number '#[0-9]*.* ft:' "$log")" "$([ $status -eq 0 ] && echo 0 || echo 1)"
  [ $status -ne 0 ] || return 0
  { grep -aE 'what\(\)|ERROR|SUMMARY|runtime error|Test unit written' "$log" || tail -5 "$log"; } |
    sed "s/^/$target: /"
  echo "$target: exit code $status; the full output is in $log"
  return 1
}

printf "$row" target executions cpu-s edges features findings
export -f unpack fuzz fuzz_for_a_while number
export build corpus work seeds findings seconds row TIMEFORMAT
printf '%s\n' "${targets[@]}" |
  xargs -n 1 -P "$(nproc)" bash -c 'set -euo pipefail; fuzz_for_a_while "$1"' fuzz_for_a_while || exit 1
