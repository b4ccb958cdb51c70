#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Trains a small translation model and compares the held-out loss that load_checkpoint.py computes from
# its checkpoint with the loss that the program prints. Runs the Python code of format.md.
#
# load_checkpoint.sh PROGRAM   exit code 77: skipped
set -eu
program=$1
here=$(cd "$(dirname "$0")" && pwd)
python=
for candidate in python3 /usr/bin/python3; do  # fall back to Debian's python3
  ! "$candidate" -c 'import h5py, numpy' 2>/dev/null || { python=$candidate; break; }
done
if [ -z "$python" ]; then
  echo "skipped: python3 has no h5py or no numpy (Debian: python3-h5py)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Sentences of 1 to 5 letters. The translation has the letters in upper case and in reverse order.
make_pairs() {  # SEED LINES NAME
  awk -v seed="$1" -v lines="$2" -v source="$3.source" -v target="$3.target" 'BEGIN {
    srand(seed)
    for (n = 0; n < lines; ++n) {
      s = t = ""
      for (i = 1 + int(5 * rand()); i > 0; --i) {
        c = substr("abcdefg", 1 + int(7 * rand()), 1)
        s = s (s == "" ? "" : " ") c
        t = toupper(c) (t == "" ? "" : " ") t
      }
      print s > source; print t > target
    }
  }'
}
make_pairs 1 300 train
make_pairs 2 20 held_out

for norm in pre post; do
  for positions in sinusoidal learned; do
    for tie in none target; do
      cat > pairs.yaml <<YAML
data:
  task: parallel_text
  train_source: train.source
  train_target: train.target
  validation_source: held_out.source
  validation_target: held_out.target
model:
  kind: seq2seq
  d_model: 16
  num_heads: 2
  num_encoder_layers: 2
  num_decoder_layers: 1
  d_ff: 24
  max_length: 8
  norm: $norm
  positions: $positions
  tie_embeddings: $tie
schedule:
  kind: constant
  learning_rate: 0.005
train:
  steps: 60
  batch_size: 16
  validate_every: 60
YAML
      run=run-$norm-$positions-$tie
      "$program" train pairs.yaml train.run_dir="$run" > log
      expected=$("$program" evaluate "$run" --json |
        "$python" -c 'import json, sys; print(json.load(sys.stdin)["validation"]["loss"])')
      found=$("$python" "$here/load_checkpoint.py" "$run"/checkpoints/step-00000060.h5 \
        held_out.source held_out.target)
      "$python" - "$expected" "$found" <<'PYTHON' || { echo "$run: expected $expected, found $found"; exit 1; }
import sys
expected, found = map(float, sys.argv[1:])
sys.exit(abs(found - expected) > 1e-4 * expected)
PYTHON
    done
  done
done

"$python" - "$here/../../train/checkpoint/format.md" run-pre-learned-none/checkpoints/step-00000060.h5 <<'PYTHON'
import importlib.util, re, sys
page, checkpoint = sys.argv[1:]
for code in re.findall(r"```python\n(.*?)```", open(page).read(), re.DOTALL):
    if "xxhash" not in code or importlib.util.find_spec("xxhash"):
        exec(code.replace("runs/copy/checkpoints/step-00001234.h5", checkpoint), {})
PYTHON
