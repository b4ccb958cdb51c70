# SPDX-License-Identifier: BSD-3-Clause
# Shared by the tests of shell completion, which source it with the path of the program. Creates a
# folder with configs, a run and other files, changes to it, and puts the program into PATH.
program=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work" 2>/dev/null || { sleep 1; rm -rf "$work"; }' EXIT  # a shell may still write its history
mkdir -p "$work/bin" "$work/place/runs/copy/checkpoints" "$work/place/runs/my run" "$work/place/configs"
ln -s "$program" "$work/bin/tapestry"
PATH=$work/bin:$PATH
export HOME=$work LC_ALL=C.UTF-8
cd "$work/place"
touch configs/copy.yaml configs/sort.yml configs/notes.txt configs/best.h5

failed=0
# expect WHAT FOUND EXPECTED: candidates, sorted, separated by spaces
expect() {
  if [ "$2" != "$3" ]; then
    printf '%s: found    %s\n%*s  expected %s\n' "$1" "$2" "${#1}" '' "$3" >&2
    failed=1
  fi
}

