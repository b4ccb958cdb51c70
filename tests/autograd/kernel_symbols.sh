#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# kernel_symbols.sh NM SET OBJECT...: fails if an object that is compiled for the instruction set SET
# defines a weak function whose name does not contain SET. Names in the namespace of the set and in
# xsimd contain SET. If weak functions have the same name, the linker keeps an arbitrary one.
set -euo pipefail
nm=$1 set=$2
shift 2

(( $# > 0 ))
symbols=$("$nm" --defined-only --format=posix "$@" | awk '$2 == "W" { print $1 }' | sort -u)
grep -q "$set" <<<"$symbols"  # fail if there is nothing to check
if foreign=$(grep -v "$set" <<<"$symbols"); then
  echo "weak functions outside of the namespace of $set:"
  c++filt <<<"$foreign"
  exit 1
fi
