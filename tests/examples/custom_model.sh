#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the program of custom_model.cpp as a user would: custom_model.sh PROGRAM BROKEN_PROGRAM [KILLS]
# Trains, kills the run KILLS times (default 3) with SIGKILL and resumes it. Compares the bytes of
# the last checkpoint with the last checkpoint of an uninterrupted run. Checks config errors,
# gradcheck, check and evaluate. BROKEN_PROGRAM has a wrong gradient, which gradcheck must name.
set -euo pipefail
program=$1
broken=$2
kills=${3:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "custom_model: $*" >&2
  exit 1
}

steps=$((1000 + 500 * kills))
cat >custom.yaml <<YAML
data:
  task: toy_sentences
  train_size: 400
  validation_size: 40
  test_size: 40
model:
  kind: window_mlp
  read_tokens: 3
  d_model: 16
  d_ff: 32
  max_length: 32
train:
  steps: $steps
  batch_size: 16
  save_every: 20
  log_every: 100
  validate_every: 500
YAML

"$program" train custom.yaml train.run_dir=whole >whole.log || fail "training ends with $?"
last=checkpoints/step-$(printf %08d "$steps").h5
[ -f "whole/$last" ] || fail "no last checkpoint"

"$program" train custom.yaml train.run_dir=killed >killed.log 2>&1 &
killed=0
for ((i = 0; i < kills; ++i)); do
  child=$!
  sleep "0.$((RANDOM % 3))$((RANDOM % 10))"
  if kill -9 "$child" 2>/dev/null; then killed=$((killed + 1)); fi
  wait "$child" 2>/dev/null || true
  if ls killed/checkpoints/*.h5 >/dev/null 2>&1; then
    "$program" train --resume killed >>killed.log 2>&1 &
  else
    rm -rf killed
    "$program" train custom.yaml train.run_dir=killed >>killed.log 2>&1 &
  fi
done
wait "$!" || { cat killed.log; fail "the resumed run fails"; }
cmp "whole/$last" "killed/$last" || fail "the resumed run has other bytes"
cmp whole/metrics.csv killed/metrics.csv || fail "the resumed run has other metrics"
grep -q 'read_tokens: 3' whole/config.yaml || fail "the custom key is not in the effective config"

"$program" evaluate whole >evaluate.log || fail "evaluate fails"
grep -q '40 held-out sentences: loss' evaluate.log || fail "$(cat evaluate.log)"
"$program" gradcheck custom.yaml >gradcheck.log || { cat gradcheck.log; fail "gradcheck fails"; }
"$program" check custom.yaml >check.log || { cat check.log; fail "check fails"; }

"$broken" gradcheck custom.yaml >broken.log && fail "gradcheck accepts a wrong gradient"
grep -q 'first wrong operation: wrong_tanh' broken.log || { cat broken.log; fail "not named"; }

refused() {
  local message=$1
  shift
  if "$program" "$@" >refused.log 2>&1; then fail "$* is accepted"; fi
  grep -qF -- "$message" refused.log || { cat refused.log; fail "$*: expected: $message"; }
}
sed 's/read_tokens: 3/read_tokens: 100/' custom.yaml >large.yaml
refused 'large.yaml:8:16: expected a whole number from 1 to 64, found "100"' train large.yaml
sed 's/read_tokens/read_token/' custom.yaml >unkncustom.yaml
refused 'did you mean `read_tokens`?' train unkncustom.yaml
refused '`read_tokens` is only used with `model.kind: window_mlp`' \
  train custom.yaml model.kind=language_model
refused 'model.read_tokens' train --resume whole model.read_tokens=4 train.steps=$((steps + 1))
refused '`num_heads` is only used with `model.kind: seq2seq' train custom.yaml model.num_heads=2
"$program" generate whole "le chat" --tokens 5 >generate.log || fail "generate fails"
grep -q '^le chat ' generate.log || fail "generate: $(cat generate.log)"
grep -q "next: $(basename "$program") evaluate whole" whole.log || fail "another program is named"
refused 'the model has no attention layer' attention whole
refused 'the model has no attention layer' attention custom.yaml --json
echo "custom_model: all checks passed; the run was killed $killed times"
