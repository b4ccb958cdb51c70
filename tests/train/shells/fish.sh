#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Completes command lines in fish: fish.sh PROGRAM. The exit code is 77 if fish is not installed.
set -euo pipefail
command -v fish >/dev/null || { echo "fish is not installed"; exit 77; }
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tapestry completion fish >"$work/tapestry.fish"
fish --no-execute "$work/tapestry.fish"

# The candidates that fish shows for the line $1, without their descriptions.
complete_line() {
  fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$work/tapestry.fish" "$1" |
    cut -f 1 | sort | paste -sd ' '
}
check() { expect "$1" "$(complete_line "$1")" "$2"; }

check 'tapestry tr' 'train translate'
check 'tapestry train --re' '--resume'
check 'tapestry train conf' 'configs/'
check 'tapestry evaluate runs/co' 'runs/copy'
check 'tapestry evaluate runs/my' 'runs/my run/'
check 'tapestry train configs/copy.yaml model.act' 'model.activation= model.activation_dropout='
check 'tapestry train configs/copy.yaml model.activation=ge' \
  'model.activation=geglu model.activation=gelu model.activation=gelu_tanh'
check 'tapestry train configs/copy.yaml data.train_text=configs/n' \
  'data.train_text=configs/notes.txt'

expect 'a description' "$(fish --no-config -c 'source $argv[1]; complete -C "tapestry trai"' \
  "$work/tapestry.fish")" $'train\tTrain a model, or resume training'

[ $failed = 0 ] && echo "fish: all completions are right"
exit $failed
