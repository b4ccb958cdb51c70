#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Completes command lines in Zsh: zsh.sh PROGRAM. The exit code is 77 if Zsh is not installed or the
# system has no pseudo-terminals.
set -euo pipefail
command -v zsh >/dev/null || { echo "zsh is not installed"; exit 77; }
[ -e /dev/pts/ptmx ] || { echo "there are no pseudo-terminals here (/dev/pts)"; exit 77; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/common.sh"

# Tests the script both in a function folder, where packages install it, and sourced, as in the
# help.
mkdir "$work/functions"
tapestry completion zsh >"$work/functions/_tapestry"
zsh -n "$work/functions/_tapestry"
export ZDOTDIR=$work
rc=$'PS1="> "\nbindkey -e\nsetopt no_beep\nautoload -Uz compinit\n'
installed="fpath=($work/functions \$fpath)"$'\n'"compinit -u -D"
sourced=$'compinit -u -D\nsource <(tapestry completion zsh)'

type_keys() { python3 "$here/terminal.py" "$1" zsh -d -i | paste -sd '|'; }
check() { expect "$2" "$(type_keys "$1")" "$2"; }

for way in "$installed" "$sourced"; do
  printf '%s%s\n' "$rc" "$way" >"$work/.zshrc"
  check $'tapestry eval\tru\t' 'tapestry|evaluate|runs/copy'
done
check $'tapestry train configs/co\tmodel.d_mo\t8' 'tapestry|train|configs/copy.yaml|model.d_model=8'
check $'tapestry train configs/copy.yaml model.activation=sw\t' \
  'tapestry|train|configs/copy.yaml|model.activation=swiglu'
check $'tapestry train configs/copy.yaml data.train_text=configs/n\t' \
  'tapestry|train|configs/copy.yaml|data.train_text=configs/notes.txt'
check $'tapestry evaluate runs/my\t' 'tapestry|evaluate|runs/my run'
check $'tapestry train --res\truns/c\t --al\tmodel.dro\t' \
  'tapestry|train|--resume|runs/copy|--allow-change|model.dropout'
check $'tapestry completion f\t' 'tapestry|completion|fish'

[ $failed = 0 ] && echo "zsh: all completions are right"
exit $failed
