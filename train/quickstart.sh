#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# From a bare Debian to a trained Transformer: train/quickstart.sh [CONFIG]
# Installs missing packages, builds, trains CONFIG (default: configs/copy.yaml) and evaluates the model
# on held-out examples. If the run directory has a checkpoint, resumes the run.
set -euo pipefail
config=$(realpath "${1:-$(dirname "${BASH_SOURCE[0]}")/../configs/copy.yaml}")
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

cat <<EOF

Next:
  echo 'b a d c' | $tapestry translate $run     translate a line
  $tapestry config new my.yaml                  write a config for your data; guides: configs/README.md
  train/quickstart.sh configs/reverse.yaml      train another config: reverse, sort, toy_translation
  $tapestry config explain configs/copy.yaml    list all config keys
  $tapestry gradcheck configs/copy.yaml         compare gradients with finite differences
EOF
