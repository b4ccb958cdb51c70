#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the unit tests and the commands of the program under valgrind's memcheck. Unlike sanitizers,
# memcheck also finds reads of uninitialized memory in libraries.
#
#   tests/valgrind.sh                 everything
#   tests/valgrind.sh data program    some of autograd, layers, optim, data, train, program
#
# Exits with 1 if valgrind reports an error; .build/valgrind/NAME.log has the reports. Needs
# valgrind (apt-get install valgrind). Tapestry is built without AVX-512, and OpenBLAS uses Haswell
# kernels, since valgrind 3.19 does not know AVX-512. Only unreachable memory counts as leaked:
# threads of the pool keep their memory until the process ends.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=.build/valgrind
export OPENBLAS_CORETYPE=Haswell OPENBLAS_NUM_THREADS=1
memcheck=(valgrind --quiet --error-exitcode=99 --num-callers=30 --fair-sched=yes
  --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite)

if ! command -v valgrind >/dev/null; then
  echo 'valgrind.sh: valgrind was not found, expected it on the PATH' >&2
  echo 'hint: apt-get install valgrind' >&2
  exit 2
fi

# Test cases to skip, with the reasons.
declare -A left_out=(
  # Products of billions of operations take minutes; other tests cover products. One test compares a
  # sum with an 80-bit sum, but valgrind computes 80-bit sums in 64 bits.
  [autograd]='tall and wide products larger than a split*,the sum of squares of float32 values*'
  # valgrind itself exceeds the memory limits of some tests, ends a process that runs out of memory,
  # and makes /proc/self/mem readable.
  [train]='a config that would expand without end*,a config of a terabyte*,work in a child process has no more memory*,input that cannot be read*'
)
# A forked process lacks the stacks of other threads, so memory that only those stacks point to
# would count as leaked. The address sanitizer finds leaks in these tests.
declare -A leak_check=([train]=no)

failed=0

# report NAME STATUS SECONDS
report() {
  local log=$build/$1.log reports
  reports=$(grep -c '^==[0-9]*== [A-Z0-9]' "$log" || true)
  printf '%-10s %5d s  ' "$1" "$3"
  if [ "$2" -eq 0 ]; then
    echo 'no report'
  else
    echo "exit code $2, $reports lines of reports: see $log"
    failed=1
  fi
}

# unit_tests FOLDER
unit_tests() {
  local start=$SECONDS status=0
  cmake --build --preset valgrind --target "$1_tests"
  "${memcheck[@]}" --leak-check="${leak_check[$1]:-full}" "$build/tests/$1/$1_tests" \
    --test-case-exclude="${left_out[$1]:-}" >"$build/$1.log" 2>&1 || status=$?
  report "$1" "$status" $((SECONDS - start))
}

# tapestry EXPECTED ARGUMENT...: runs a command of the program in $folder, which must exit with code
# EXPECTED and without valgrind errors.
tapestry() {
  local expected=$1 status=0
  shift
  echo "tapestry $*" >>"$log"
  (cd "$folder" && "${memcheck[@]}" "$program" "$@" <input) >>"$log" 2>&1 || status=$?
  [ "$status" -eq "$expected" ] || echo "exit code $status, expected $expected" >>"$log"
  [ "$status" -eq "$expected" ] || wrong=$status
}

# Runs each command once, on valid and on invalid files. Tests that start the program do not cover
# it, since valgrind does not follow child processes.
program() {
  local start=$SECONDS wrong=0 program=$PWD/$build/tapestry log=$PWD/$build/program.log folder
  cmake --build --preset valgrind --target tapestry
  folder=$(mktemp -d)
  : >"$log"
  printf 'ein haus\neine katze\n' | tee "$folder/train.de" >"$folder/input"
  printf 'a house\na cat\n' >"$folder/train.en"
  cat >"$folder/good.yaml" <<'YAML'
data: {task: parallel_text, train_source: train.de, train_target: train.en,
       validation_source: train.de, validation_target: train.en}
model: {d_model: 16, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, d_ff: 32,
        max_length: 8}
train: {steps: 4, threads: 2, save_every: 2, validate_every: 2}
YAML
  sed 's/train.en/nowhere/' "$folder/good.yaml" >"$folder/bad_data.yaml"
  printf 'model: {d_model: &a [[*a, "' >"$folder/bad.yaml"

  tapestry 0 train good.yaml
  tapestry 0 train --resume runs/good train.steps=6
  tapestry 0 evaluate runs/good
  tapestry 0 translate runs/good
  tapestry 0 inspect runs/good
  tapestry 0 check runs/good
  tapestry 0 gradcheck good.yaml --coordinates 1
  tapestry 2 train bad.yaml
  tapestry 3 train bad_data.yaml
  printf 'good\n\xff\n' >"$folder/input"
  tapestry 3 translate runs/good
  truncate -s 5000 "$folder"/runs/good/checkpoints/step-00000006.h5
  tapestry 4 evaluate runs/good/checkpoints/step-00000006.h5
  rm -r "$folder"
  report program "$wrong" $((SECONDS - start))
}

cmake --preset valgrind >/dev/null
for name in "${@:-autograd layers optim data train program}"; do
  for part in $name; do
    if [ "$part" = program ]; then program; else unit_tests "$part"; fi
  done
done
exit "$failed"
