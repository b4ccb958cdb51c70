#!/usr/bin/env bash
# Fails on an include that goes against the folders' arrows:
#   train -> layers, optim, data, autograd;  layers, optim -> autograd;  ops -> kernels
#   autograd/ops/internal, which is not installed, is for the sources of autograd/ops alone
#   data/readers -> data -> data/text -> data/io; of data/*.h, corpora do not use batches
#   data/metrics -> data/io, and no other folder of data uses it
#   train/cli -> all of train; train/tasks -> train/inference; train/tasks, train/inference and
#   train/checkpoint -> train/config, train/platform, of which neither uses the other;
#   train/recording -> train/config, train/inference, train/platform, the run directory in train/checkpoint, and the
#   loop uses it; train/output -> train/recording, train/platform; train/models -> train/tasks, train/checkpoint;
#   train/plan, train/report, train/sweep and train/checks are for cli alone, and plan also uses the loop;
#   train/parallel -> train/platform, and only the loop, plan and cli use it; of train/*.h, all may use error.h and
#   format.h, checkpoint the state of a run as well
# usage: include_arrows.sh SOURCE_DIR
set -euo pipefail
cd "$1"
wrong=0

# forbid FOLDER PATTERN: no file below FOLDER may have an include that matches PATTERN.
forbid() {
  local found
  found=$(grep -rnE --include='*.h' --include='*.cpp' "^#include [\"<]($2)" "$1" || true)
  [ -z "$found" ] && return
  echo "includes that $1 may not have:"
  echo "$found"
  wrong=1
}

forbid autograd '(layers|optim|data|train|tests)/'
for file in autograd/*.h autograd/*.cpp; do forbid "$file" 'autograd/ops/'; done
forbid autograd/kernels 'autograd/(ops/|[a-z_]+\.h)'
for file in autograd/ops/*.h; do forbid "$file" 'autograd/ops/internal/'; done
for folder in layers optim data train; do forbid "$folder" 'autograd/ops/internal/'; done
forbid layers '(optim|data|train|tests)/'
forbid optim '(layers|data|train|tests)/'
forbid data '(autograd|layers|optim|train|tests)/|xtensor'
forbid data/io 'data/([^i]|i[^o])'
forbid data/readers 'data/(batch|batch_schedule)[.]'
forbid data/metrics 'data/(readers/|text/|[a-z_]+[.]h)'
for folder in data/*.cpp data/*.h data/readers data/text; do forbid "$folder" 'data/metrics/'; done
for folder in data/*.cpp data/*.h; do forbid "$folder" 'data/readers/'; done
forbid data/text 'data/(readers/|[a-z_]+[.]h)'
forbid train 'tests/'
# The headers directly in train/ that folders below may not use, and those that checkpoint may not.
root=$(cd train && ls -- *.h | grep -vxE '(error|format)\.h' | paste -sd '|')
loop=$(cd train && ls -- *.h | grep -vxE '(error|format|divergence_watch|metrics)\.h' | paste -sd '|')
forbid train/config "train/((tasks|inference|checkpoint|platform|checks|cli)/|$root)"
forbid train/inference "train/((tasks|checkpoint|checks|cli)/|$root)"
forbid train/tasks "train/((checkpoint|checks|cli)/|$root)"
forbid train/checkpoint "train/((tasks|inference|checks|cli)/|$loop)"
forbid train/platform "train/((config|tasks|inference|checkpoint|parallel|checks|cli)/|$root)"
forbid train/parallel "train/((config|tasks|inference|checkpoint|checks|cli)/|$root)"
for folder in train/config train/inference train/tasks train/checkpoint; do
  forbid "$folder" 'train/parallel/'
done
# Of the headers directly in train/, recording uses what a model consists of.
inner=$(cd train && ls -- *.h | grep -vxE '(error|format|model_summary)\.h' | paste -sd '|')
forbid train/recording "train/((tasks|checkpoint/[^r]|report|sweep|checks)/|$inner)"
for file in train/*.h train/*.cpp; do forbid "$file" 'train/(report|sweep|plan|checks)/'; done
# The lines that a run prints, and its log.
inner=$(cd train && ls -- *.h | grep -vxE '(error|format|metrics)\.h' | paste -sd '|')
forbid train/output "train/((tasks|inference|checkpoint|models|parallel|report|sweep|plan|checks)/|$inner)"
forbid train/models "train/((output|recording|parallel|report|sweep|plan|checks)/|$root)"
for folder in train/report train/sweep train/checks; do
  forbid "$folder" 'train/plan/|train/(trainer|training_run|step|step_computer|step_time|run_saver|validator|batch_loader)[.]h'
done
for folder in train/config train/inference train/tasks train/checkpoint train/platform train/parallel; do
  forbid "$folder" 'train/(recording|report|sweep|plan|output|models|checks)/'
done
for folder in train/*.cpp train/*.h train/checks train/models train/output train/plan train/recording train/report \
  train/sweep; do forbid "$folder" 'train/cli/'; done
for folder in autograd layers optim; do forbid "$folder" 'hdf5|H5'; done
for folder in autograd layers optim data train/*.cpp train/*.h train/*/*.cpp train/*/*.h; do
  forbid "$folder" 'mpi[.]h'
done
forbid train/plan 'train/(sweep|checks|output|report)/|train/(trainer|training_run|run_saver)[.]h'
exit $wrong
