#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Trains six configs for some steps with one set of kernels and compares digests of the final
# checkpoints with digests.txt: results must be the same on every processor that has the
# instructions.
#
#   tests/regressions/kernels.sh TAPESTRY KERNELS [STEPS]       STEPS: 200 or 20, 200 if absent
#
# With UPDATE=1 the digests are written instead, each with the revision of the arithmetic
# (train/checkpoint/arithmetic.cpp), which has to grow if a digest changes and its config has not: by it a
# resumed run knows that it continues with other rounding. The digests hold for g++ 12; another
# compiler may round some expressions in another way.
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
    [[ ${recorded##* } == "$revision" ]] && echo "kernels.sh: $name: if configs/$name.yaml has not" \
      "changed, increase \`revision\` in train/checkpoint/arithmetic.cpp" >&2
  else
    echo "kernels.sh: $name: found $line $revision, expected $recorded" >&2
    failed=1
  fi
done
[[ $failed == 0 ]] && echo "kernels.sh: $kernels, $steps steps: the digests of six runs are as recorded"
exit $failed
