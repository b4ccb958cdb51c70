#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests the commands of a user's program with custom models: check.sh PROGRAM
# Trains, evaluates and applies a custom version of each model kind that answers input lines. Checks
# the messages about faulty models and registrations, and the program name in help and scripts.
set -euo pipefail
program=$1
name=$(basename "$program")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "custom_models: $*" >&2
  exit 1
}

# config NAME TASK-LINES...: writes NAME.yaml with a tiny model of kind NAME
config() {
  local kind=$1
  shift
  printf '%s\n' 'data:' "${@/#/  }" "model: {kind: $kind, d_model: 8, max_length: 32}" \
    'train: {steps: 3, batch_size: 4, threads: 1, validate_every: 3, save_every: 3}' >"$kind.yaml"
}

# expect CODE TEXT ARGUMENTS...: checks that the program exits with CODE and prints TEXT
expect() {
  local code=$1 text=$2 found=0
  shift 2
  "$program" "$@" >printed 2>&1 || found=$?
  [ "$found" = "$code" ] || fail "$*: exit code $found, expected $code: $(cat printed)"
  grep -qF -- "$text" printed || fail "$*: expected: $text; found: $(cat printed)"
}

sizes='train_size: 40
validation_size: 8
test_size: 8'
mapfile -t sizes <<<"$sizes"
printf 'le\tD\nchat\tN\n\nil\tP\ndort\tV\n\n' >tags.txt
for ((i = 0; i < 4; ++i)); do cat tags.txt; done >train.txt
config my_language_model 'task: toy_sentences' "${sizes[@]}"
config my_masked_language_model 'task: toy_sentences' "${sizes[@]}"
config my_seq2seq 'task: toy_translation' "${sizes[@]}"
config my_classifier 'task: toy_agreement' "${sizes[@]}"
for ((i = 0; i < 20; ++i)); do echo "1,0,0,0,0"; echo "0,0,0,1,1"; done >images.csv
config my_vision_transformer 'task: images' 'train_images: images.csv' 'image_height: 2' \
  'image_width: 2' 'pixel_maximum: 1' 'validation_size: 4' 'test_size: 4'
config my_tagger 'task: tagged_text' 'train_text: train.txt' 'validation_text: train.txt'

# Each model is checked, trained, scored and applied like the corresponding built-in kind.
answer() {
  local kind=$1 command=$2 line=$3
  # The models use too little of the input to overfit every batch.
  "$program" check "$kind.yaml" >printed 2>&1 || true
  grep -q 'checks passed$' printed || fail "check $kind.yaml: $(cat printed)"
  ! grep '^FAILED ' printed | grep -qv '^FAILED  overfitting ' ||
    fail "check $kind.yaml: $(cat printed)"
  expect 0 "next: $name evaluate run-$kind" train "$kind.yaml" "train.run_dir=run-$kind"
  expect 0 loss evaluate "run-$kind"
  if [ "$command" = generate ]; then
    expect 0 "$line" generate "run-$kind" "$line" --tokens 3
  else
    "$program" "$command" "run-$kind" <<<"$line" >printed 2>&1 || fail "$command: $(cat printed)"
    [ "$(wc -l <printed)" = 1 ] || fail "$command: $(cat printed)"
  fi
  expect 2 'the model has no attention layer' attention "run-$kind"
}
answer my_language_model generate 'le chat'
answer my_masked_language_model fill 'le chat _'
answer my_seq2seq translate 'le chat dort'
expect 0 'nrefs:1|' evaluate run-my_seq2seq
answer my_classifier classify 'le chat dort'
answer my_vision_transformer classify '1,0,0,0'
answer my_tagger tag 'le chat'
expect 2 "of kind my_classifier, expected language_model, my_language_model" generate run-my_classifier
expect 2 "of kind my_tagger, expected seq2seq, my_seq2seq or attentive" translate run-my_tagger

# A model with attention passes all checks, including padding, and its attention weights are shown.
config attentive 'task: toy_translation' "${sizes[@]}"
# After a few steps of training, only the gradients are certain.
"$program" check attentive.yaml model.num_heads=2 >printed 2>&1 || true
for check in causality padding permutation threads accumulation precision gradients; do
  grep -q "^ok *$check " printed || fail "check attentive.yaml: $check: $(cat printed)"
done
"$program" check attentive.yaml model.num_heads=2 model.masks_padding=false >printed 2>&1 || true
for check in causality padding; do
  grep -q "^FAILED *$check " printed || fail "padding that is not masked: $(cat printed)"
done
expect 0 'gradients: ' gradcheck attentive.yaml model.num_heads=2
expect 0 "next: $name evaluate run" train attentive.yaml model.num_heads=2 train.run_dir=run
expect 0 'done: 6 steps' train --resume run train.steps=6
expect 0 'cross, head 1' attention run
expect 0 loss evaluate run
# Recordings and reports support an attention layer with unknown tokens, whose number varies.
for ((i = 0; i < 10; ++i)); do echo 'le chat'; echo 'le chat dort ici'; done >source.txt
for ((i = 0; i < 10; ++i)); do echo 'the cat sleeps'; echo 'the'; done >target.txt
config attentive 'task: parallel_text' 'train_source: source.txt' 'train_target: target.txt' \
  'validation_source: source.txt' 'validation_target: target.txt'
expect 0 'done: 3 steps' train attentive.yaml model.num_heads=2 \
  train.run_dir=run-recorded train.tensorboard=true train.report_every=1 train.validate_every=1
grep -q 'layer cross is left out' run-recorded/report.html || fail "report of a custom model"
config attentive 'task: toy_translation' "${sizes[@]}"
expect 1 'attentive: make_network() threw: self: multi-head attention: d_model 8 is not a multiple' \
  check attentive.yaml model.num_heads=3

# A task with custom data.
config mean_of_bits 'task: majority' "${sizes[@]}"
"$program" check mean_of_bits.yaml >printed 2>&1 || true
for check in causality padding permutation threads gradients; do
  grep -q "^ok *$check " printed || fail "check mean_of_bits.yaml: $check: $(cat printed)"
done
expect 0 '0 wrong' gradcheck mean_of_bits.yaml
expect 0 'data: 40 training sequences, 8 validation, 8 test; two classes' \
  train mean_of_bits.yaml train.run_dir=run-bits
expect 0 'done: 6 steps' train --resume run-bits train.steps=6
expect 0 '8 held-out sequences: loss' evaluate run-bits
expect 2 'of kind mean_of_bits, expected classifier' classify run-bits
expect 2 '`kind: mean_of_bits` does not support `task: copy`' check mean_of_bits.yaml data.task=copy
expect 1 'custom model mean_of_bits: logits() returned (1, 1, 3) of ' \
  check mean_of_bits.yaml model.more_logits=1
expect 1 'no more bits (this is a bug in the code of the custom model' \
  check mean_of_bits.yaml data.seed=666

# A gradient check without a conclusive comparison fails.
config isolated 'task: toy_sentences' "${sizes[@]}"
expect 1 'no gradient could be checked: all comparisons are inconclusive' \
  gradcheck isolated.yaml --coordinates 0
grep -q '^8 gradients: 0 agree, 0 wrong, 8 inconclusive; ' printed || fail "gradcheck: $(cat printed)"

# Keys that a model does not list are rejected.
expect 2 '`num_heads` is only used with' train my_tagger.yaml model.num_heads=2
expect 2 '`d_head` is only used with' train my_tagger.yaml model.d_head=4

# Runs of a kind without custom keys store no custom keys: programs without custom models can open
# them.
config classifier 'task: toy_agreement' "${sizes[@]}"
expect 0 'done: 3 steps' train classifier.yaml train.run_dir=run-plain
! grep -E 'masks_padding|mistake|more_logits' run-plain/config.yaml || fail 'unused custom keys are stored'
expect 0 'done: 3 steps' train attentive.yaml train.run_dir=run-own model.masks_padding=false
grep -q 'masks_padding: false' run-own/config.yaml || fail 'a custom key is not stored'

# Errors in the code of a model name the model, even before the first step of a run.
config wrong 'task: toy_sentences' "${sizes[@]}"
wrong() {
  local command
  for command in check train gradcheck; do
    expect 1 "$name: error: custom model wrong: $2" "$command" wrong.yaml "model.mistake=$1"
    grep -q 'bug in tapestry' printed && fail "$1: a mistake of the model is called a bug in tapestry"
    [ "$(grep -c '^hint: ' printed)" = 1 ] || fail "$1: no hint: $(cat printed)"
  done
}
wrong wide_logits 'logits() returned (1,'
wrong reads_source 'embed() returned (1, 0, 8) of '
wrong shape 'features() threw: hidden: linear: x has shape'
wrong dtype 'features() returned (1,'
wrong constructor 'make_network() threw: no such file'
wrong number 'features() threw an object that is not a std::exception'
wrong key 'make_network() threw: model.mask_padding: no registered kind has this key, expected one of '

# `check` finds a loss that ignores the normalizer, and `explain` shows it.
"$program" check wrong.yaml model.mistake=loss >printed 2>&1 || true
grep -q '^FAILED *accumulation ' printed || fail "a wrong loss: $(cat printed)"
"$program" check wrong.yaml >printed 2>&1 || true
grep -q '^ok *accumulation ' printed || fail "the loss of all networks: $(cat printed)"
expect 0 '"operation":"scale","layer":"","formula":"y = 7 x"' \
  explain wrong.yaml 'le chat dort' --json model.mistake=loss

# `explain` shows operations and formulas of custom models.
expect 0 '"operation":"cross_entropy","layer":"","formula":"L = ' \
  explain wrong.yaml 'le chat dort' --json
grep -qF '"layer":"embedding","formula":"yᵢ = W[idᵢ]"' printed ||
  fail "explain of an embedding: $(cat printed)"
grep -qF '"layer":"output","formula":"y = x Wᵀ + b"' printed || fail "explain of logits: $(cat printed)"
expect 0 '"operation":"sum","layer":"","formula":"' \
  explain run-my_classifier 'le chat dort' --json
! grep -qE 'model\.(pooling|tie_embeddings|activation)' printed || fail "explain of other keys: $(cat printed)"

# The report of a run whose model the program does not have says once that the kind is unknown.
expect 0 'done: 3 steps' train wrong.yaml train.run_dir=run-wrong
WRONG_REGISTRATION=absent expect 0 'model.kind `wrong` is unknown to this program' report run-wrong
[ "$(grep -c 'is unknown to this program' printed)" = 1 ] || fail "report: $(cat printed)"
grep -qx 'hint: use the program that wrote the run' printed || fail "report: $(cat printed)"
[ "$(grep -c . printed)" = 3 ] || fail "report: $(cat printed)"
WRONG_REGISTRATION=absent expect 4 'model.kind `wrong` is unknown to this program' evaluate run-wrong

# Errors in the options name the model.
registration() {
  WRONG_REGISTRATION=$1 expect 1 "$name: error: custom model $2" check my_tagger.yaml
}
registration kind 'classifier: a model.kind with this name already exists'
registration key 'wrong: key model.mistake: already exists'
registration default \
  'wrong: key model.window: the default is 0, expected a whole number from 1 to 64'

# Help, errors and completion scripts use the name of the user's program.
expect 0 "$name, with tapestry" --version
expect 0 "\`$name help COMMAND\`" --help
expect 0 "$name attention runs/copy --layer" help attention
expect 4 "$name: error:" evaluate nowhere
for shell in bash zsh fish; do
  expect 0 "$name" completion "$shell"
  grep -q tapestry printed && fail "the completion of $shell names tapestry: $(cat printed)"
done
for command in $("$program" complete '' | cut -f 1); do
  "$program" "$command" --help >printed
  ! grep -n 'tapestry [a-z]' printed || fail "the help of $command names tapestry"
done
echo "custom_models: all checks passed"
