#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Counts the lines of the C++ examples and of their PyTorch versions, without blank lines and
# comments. Fails if an example has more than 1.3 times the lines of its PyTorch version.
# usage: lines.sh [FOLDER]
set -euo pipefail
cd "${1:-$(dirname "$0")}"

lines() { grep -cvE '^[[:space:]]*($|#([^i]|$)|//)' "$1"; }

status=0
for python in *.py; do
  name=${python%.py}
  [[ -e $name.cpp ]] || continue  # load_checkpoint.py has no counterpart
  cpp_lines=$(lines "$name.cpp") python_lines=$(lines "$python")
  ratio=$(awk "BEGIN { printf \"%.2f\", $cpp_lines / $python_lines }")
  echo "$name: $cpp_lines lines of C++, $python_lines of Python, ratio $ratio"
  ((10 * cpp_lines <= 13 * python_lines)) || status=1
done
((status == 0)) || echo "expected a ratio of at most 1.30 for each"
exit $status
