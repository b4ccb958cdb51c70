#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the program of custom_layer.cpp as a user would: custom_layer.sh PROGRAM
# Trains a classifier with it, and checks its gradients, its other properties and its answers.
set -euo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "custom_layer: $*" >&2
  exit 1
}

for i in 1 2 3 4 5 6 7 8; do
  printf 'fruit\tan apple and %s pears\nanimal\ta cat and %s dogs\n' "$i" "$i"
done >lines.txt
cat >bag.yaml <<YAML
data: {task: labelled_text, train_text: lines.txt, validation_text: lines.txt}
model: {kind: word_bag, d_model: 8, d_ff: 16, dropout: 0.1}
schedule: {learning_rate: 0.01}
train: {steps: 60, batch_size: 4, log_every: 20, validate_every: 20, save_every: 20}
YAML
"$program" train bag.yaml >train.log || { cat train.log; fail "training ends with $?"; }
"$program" gradcheck bag.yaml >gradcheck.log || { cat gradcheck.log; fail "gradcheck fails"; }
grep -q 'block.slope' gradcheck.log || { cat gradcheck.log; fail "the slope is not checked"; }
"$program" check bag.yaml >check.log || { cat check.log; fail "check fails"; }
"$program" inspect runs/bag >inspect.log || fail "inspect fails"
grep -q 'block' inspect.log || { cat inspect.log; fail "the layer is not listed"; }
"$program" explain runs/bag "3 pears" --json >explain.json || fail "explain fails"
# explain lists the matmul of mean pooling, the program's operation and the embedding.
for text in '"operation":"matmul"' '"formula":"y = A B"' '"operation":"swish"' \
  '"formula":"yᵢ = W[idᵢ]"'; do
  grep -qF -- "$text" explain.json || fail "explain does not say $text"
done
! grep -q 'model.pooling' explain.json || fail "explain has keys of other models"
[ "$(echo "3 pears" | "$program" classify runs/bag | cut -f 1)" = fruit ] || fail "a wrong answer"
echo "custom_layer: all checks passed"
