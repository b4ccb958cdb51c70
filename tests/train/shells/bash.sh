#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Completes command lines in Bash: bash.sh PROGRAM
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/common.sh"
source <(tapestry completion bash)

# Splits a line like Bash, at spaces and at each =, calls the completion function and prints its
# candidates.
complete_line() {
  local word
  COMP_WORDS=() COMPREPLY=()
  for word in $1; do
    while [[ $COMP_WORDBREAKS == *=* && $word == *=* ]]; do
      [ -z "${word%%=*}" ] || COMP_WORDS+=("${word%%=*}")
      COMP_WORDS+=(=)
      word=${word#*=}
    done
    [ -z "$word" ] || COMP_WORDS+=("$word")
  done
  [[ $1 != *' ' ]] || COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _tapestry
  printf '%s\n' "${COMPREPLY[@]}" | sort -u | paste -sd ' '
}

check() { expect "$1" "$(complete_line "$1")" "$2"; }

check 'tapestry tr' 'train translate'
check 'tapestry train --re' '--resume'
check 'tapestry evaluate runs/co' 'runs/copy'
check 'tapestry train configs/copy.yaml model.act' 'model.activation= model.activation_dropout='
check 'tapestry train configs/copy.yaml model.norm=' 'post pre'
check 'tapestry train configs/copy.yaml model.d_model=8 model.norm=po' 'post'
check 'tapestry train configs/' ''  # left to Bash
check '~/bin/tapestry ins' 'inspect'
COMP_WORDBREAKS=${COMP_WORDBREAKS//=}
check 'tapestry train configs/copy.yaml model.norm=' 'model.norm=post model.norm=pre'

# The words that readline inserts in an interactive shell.
printf 'source <(tapestry completion bash)\n' >"$work/rc"
type_keys() {
  python3 "$here/terminal.py" "$1" bash --noprofile --rcfile "$work/rc" -i | paste -sd '|'
}
expect 'commands and runs' "$(type_keys $'tapestry eval\tru\t')" 'tapestry|evaluate|runs/copy'
expect 'a name with a space' "$(type_keys $'tapestry eval\truns/my\t')" 'tapestry|evaluate|runs/my run/'
expect 'keys and values' "$(type_keys $'tapestry train configs/co\tmodel.activation=sw\t')" \
  'tapestry|train|configs/copy.yaml|model.activation=swiglu'
expect 'a file after a key' "$(type_keys $'tapestry train configs/co\tdata.train_text=configs/n\t')" \
  'tapestry|train|configs/copy.yaml|data.train_text=configs/notes.txt'
expect 'no space after a key' "$(type_keys $'tapestry train configs/co\tmodel.d_mo\t8')" \
  'tapestry|train|configs/copy.yaml|model.d_model=8'

[ $failed = 0 ] && echo "bash: all completions are right"
exit $failed
