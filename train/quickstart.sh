#!/usr/bin/env bash
# From a bare Debian to a trained Transformer: train/quickstart.sh [CONFIG]
# Installs what is missing, builds, trains CONFIG (configs/copy.yaml unless told otherwise) and shows
# how well the model does on sequences it has never seen. Run again, it goes on where it stopped.
set -euo pipefail
config=$(realpath "${1:-$(dirname "${BASH_SOURCE[0]}")/../configs/copy.yaml}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

.ci/packages.sh
cmake --preset release >/dev/null
cmake --build --preset release --parallel "$(nproc)" --target tapestry

tapestry=.build/release/tapestry
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
  echo 'b a d c' | $tapestry translate $run     say something to the model
  train/quickstart.sh configs/reverse.yaml      another task: reverse, sort, toy_translation
  $tapestry gradcheck configs/copy.yaml         see that its gradients are right
  configs/README.md                             every key of a config
EOF
