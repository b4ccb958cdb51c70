#!/usr/bin/env bash
# Completes command lines in Bash: bash.sh PROGRAM
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/common.sh"
source <(tapestry completion bash)

# Splits a line as Bash does, at spaces and at each =, calls the function and prints what it offers.
complete_line() {
  local word
  COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=() COMPREPLY=()
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
check 'tapestry  t' 'tag train translate'
check 'tapestry --v' '--version'
check 'tapestry train --re' '--resume'
check 'tapestry train conf' 'configs'
check 'tapestry train configs/' 'configs/copy.yaml configs/sort.yml'
check 'tapestry evaluate configs/' 'configs/best.h5'
check 'tapestry evaluate runs/' 'runs/copy runs/my run'
check 'tapestry evaluate runs/co' 'runs/copy'
check 'tapestry train configs/copy.yaml model.act' 'model.activation= model.activation_dropout='
check 'tapestry train configs/copy.yaml model.activation=ge' 'geglu gelu gelu_tanh'
check 'tapestry train configs/copy.yaml model.norm=' 'post pre'
check 'tapestry train configs/copy.yaml model.d_model=8 model.norm=po' 'post'
check 'tapestry train configs/copy.yaml data.train_text=configs/n' 'configs/notes.txt'
check 'tapestry train configs/copy.yaml data.train_text=conf' 'configs'
check 'tapestry train --resume runs/copy --allow-change model.dro' 'model.dropout'
check 'tapestry train --resume runs/copy --allow-change=model.dro' 'model.dropout'
check 'tapestry generate runs/copy --tokens ' ''
check 'tapestry completion ' 'bash fish zsh'
check "$program man tapestry-" 'tapestry-config'
check '~/bin/tapestry ins' 'inspect'
COMP_WORDBREAKS=${COMP_WORDBREAKS//=}
check 'tapestry train configs/copy.yaml model.norm=' 'model.norm=post model.norm=pre'
check 'tapestry train configs/copy.yaml data.train_text=conf' 'data.train_text=configs'

# What readline inserts in an interactive shell.
printf 'source <(tapestry completion bash)\n' >"$work/rc"
type_keys() {
  python3 "$here/terminal.py" "$1" bash --noprofile --rcfile "$work/rc" -i | paste -sd '|'
}
expect 'a name with a space' "$(type_keys $'tapestry eval\tru\tmy\t')" 'tapestry|evaluate|runs/my run/'
expect 'keys and values' "$(type_keys $'tapestry train configs/co\tmodel.activation=sw\t')" \
  'tapestry|train|configs/copy.yaml|model.activation=swiglu'
expect 'no space after a key' "$(type_keys $'tapestry train configs/co\tmodel.d_mo\t8')" \
  'tapestry|train|configs/copy.yaml|model.d_model=8'

[ $failed = 0 ] && echo "bash: all completions are right"
exit $failed
