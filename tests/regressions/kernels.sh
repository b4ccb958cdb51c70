#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Trains six configs with one set of kernels and compares digests of the final checkpoints with
# digests.txt. Results must be the same on every processor that supports the kernels.
#
#   tests/regressions/kernels.sh TAPESTRY KERNELS [STEPS]       STEPS: 200 (default) or 20
#
# With UPDATE=1, writes the digests instead, each with the revision of the arithmetic
# (train/checkpoint/arithmetic.cpp). The revision must increase if a digest changes without a change
# of its config, so that resumed runs can report a change of rounding. The digests are valid for
# g++ 12; other compilers may round some expressions differently.
set -euo pipefail
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tapestry=$(realpath "$1")
kernels=$2
steps=${3:-200}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for name in copy reverse sort toy_translation toy_agreement toy_masked; do
  "$tapestry" train "$folder/../../configs/$name.yaml" train.steps="$steps" train.threads=2 \
    train.kernels="$kernels" train.matmul=tapestry train.save_every=1000000 \
    train.validate_every=1000000 schedule.warmup_steps=5 train.run_dir="$work/$name" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
  digest=$("$tapestry" inspect "$work/$name" | sed -n 's/^digest of all numbers: //p')
  revision=$("$tapestry" inspect "$work/$name" | sed -n 's/^computed with .*, revision //p')
  line="$kernels $steps $name $digest"
  recorded=$(grep "^$kernels $steps $name " "$folder/digests.txt" || true)
  [[ "${recorded% *}" == "$line" ]] && continue
  if [[ -n ${UPDATE:-} ]]; then
    sed -i "/^$kernels $steps $name /d" "$folder/digests.txt"
    echo "$line $revision" >>"$folder/digests.txt"
    [[ ${recorded##* } == "$revision" ]] && echo "kernels.sh: $name: unless configs/$name.yaml has" \
      "changed, increase \`revision\` in train/checkpoint/arithmetic.cpp" >&2
  else
    echo "kernels.sh: $name: found $line $revision, expected $recorded" >&2
    failed=1
  fi
done
[[ $failed == 0 ]] && echo "kernels.sh: $kernels, $steps steps: the digests of six runs are as recorded"
exit $failed
