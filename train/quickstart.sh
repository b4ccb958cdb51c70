#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# From a bare Debian to a trained Transformer: train/quickstart.sh [CONFIG]
# Installs missing packages, builds, trains CONFIG (default: configs/toy_translation.yaml) and evaluates
# the model on held-out examples. If the run directory has a checkpoint, resumes the run.
set -euo pipefail
config=$(realpath "${1:-$(dirname "${BASH_SOURCE[0]}")/../configs/toy_translation.yaml}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Builds only the widest kernels that this processor executes, and no tests.
flags=" $(grep -m 1 '^flags' /proc/cpuinfo || true) "
has() {
  for flag; do [[ $flags == *" $flag "* ]] || return 1; done
}
kernels=baseline
if has avx2 fma; then
  kernels=avx2
  if has avx512f avx512bw avx512cd avx512dq avx512vl; then kernels=avx512; fi
fi

.ci/packages.sh
build=.build/quickstart
cmake --preset release -B $build -DTAPESTRY_KERNELS=$kernels -DTAPESTRY_TESTS=OFF \
  -DTAPESTRY_QUICK_BUILD=ON >/dev/null
cmake --build $build --parallel "$(nproc)" --target tapestry

tapestry=$build/tapestry
run=runs/$(basename "${config%.*}")
if compgen -G "$run/checkpoints/step-*.h5" >/dev/null; then
  "$tapestry" train --resume "$run"
else
  "$tapestry" train "$config" train.run_dir="$run"
fi
echo
"$tapestry" evaluate "$run"

case $run in
  runs/toy_translation)
    example="echo 'les renards portent souvent cette grenouille rapide' | $tapestry translate $run" ;;
  *) example="$tapestry report $run" ;;
esac
cat <<EOF

Next:
  $example
  # Write a config for your own data; configs/README.md lists the guides.
  $tapestry config new my.yaml
  # Train another config: copy, reverse, sort, toy_agreement or toy_masked.
  train/quickstart.sh configs/copy.yaml
EOF
