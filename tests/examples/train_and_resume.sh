#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Kills the program of train_and_resume.cpp with SIGKILL and calls it again until its run is finished.
# Compares the bytes of the files with those of an uninterrupted run: train_and_resume.sh PROGRAM
# [KILLS]
set -euo pipefail
program=$1
kills=${2:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "train_and_resume: $*" >&2
  exit 1
}

cat >reverse.yaml <<YAML
data: {task: reverse, num_symbols: 8, max_length: 6, train_size: 200, validation_size: 20, test_size: 20}
model: {d_model: 16, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, d_ff: 32, max_length: 16}
train: {steps: 3000, batch_size: 8, save_every: 20, log_every: 100, validate_every: 500}
YAML

"$program" reverse.yaml whole >whole.log || fail "training ends with $?"

killed=0
while ((killed < kills)); do
  before=$(ls killed/checkpoints 2>/dev/null | tail -n 1 || true)
  "$program" reverse.yaml killed >>killed.log 2>&1 &
  child=$!
  until [ "$(ls killed/checkpoints 2>/dev/null | grep '[.]h5$' | tail -n 1 || true)" != "$before" ]; do
    kill -0 "$child" 2>/dev/null || { cat killed.log; fail "ends before it is killed"; }
    sleep 0.01
  done
  sleep "0.0$((RANDOM % 10))"
  if kill -9 "$child" 2>/dev/null; then killed=$((killed + 1)); fi
  wait "$child" 2>/dev/null || true
done
steps=$(ls killed/checkpoints | grep '[.]h5$' | tail -n 1)
[ "$steps" != step-00003000.h5 ] || fail "the run was finished before it was killed"
"$program" reverse.yaml killed >>killed.log 2>&1 || { cat killed.log; fail "the resumed run fails"; }
grep -q 'resuming killed at step' killed.log || fail "the run was not resumed"
cmp whole/checkpoints/step-00003000.h5 killed/checkpoints/step-00003000.h5 || fail "other bytes"
cmp whole/metrics.csv killed/metrics.csv || fail "other metrics"
"$program" reverse.yaml killed | grep -q 'is finished' || fail "a finished run is trained"
"$program" missing.yaml other 2>error.log && fail "a missing config is accepted"
grep -q 'missing.yaml' error.log || fail "$(cat error.log)"
echo "train_and_resume: all checks passed; the run was killed $killed times"
