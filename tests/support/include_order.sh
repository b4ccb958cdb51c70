#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Fails if a file includes a header of a folder that comes later in this order than the file's
# folder.
#   train -> layers, optim, data, autograd;  layers, optim -> autograd;  data and autograd: only themselves
# usage: include_order.sh SOURCE_DIR
set -euo pipefail
cd "$1"
data=(data/io data/text data data/metrics data/readers)
engine=(autograd/kernels autograd autograd/ops/internal autograd/ops autograd/gradcheck)
train=(base system config inference checkpoint tasks models parallel recording report loop plan sweep checks cli)

# check ALLOWED FOLDER...: each folder may use the folders in ALLOWED, itself and the folders before it
check() {
  local allowed=" $1 " folder file used
  shift
  for folder; do
    allowed+="$folder "
    while IFS=: read -r file used; do
      [[ $allowed == *" $used "* ]] || echo "$file includes $used/, which is not before $folder"
    done < <(grep -oE '^#include "[^"]+/' "$folder"/*.h "$folder"/*.cpp 2>/dev/null | sed 's,#include ",,; s,/$,,')
  done
}

problems=$(
  set +e
  check "" "${data[@]}"
  check "" "${engine[@]}"
  for folder in layers optim; do check "${engine[*]}" "$folder"; done
  check "${data[*]} ${engine[*]} layers optim" "${train[@]/#/train/}"
  for folder in autograd data layers optim train; do
    find "$folder" -name '*.h' -printf '%h\n' | sort -u |
      grep -vxF -f <(printf '%s\n' "${data[@]}" "${engine[@]}" layers optim train "${train[@]/#/train/}") |
      sed 's,$, is not in the order of folders,'
  done
  grep -rlE '#include [<"](hdf5|H5)' autograd layers optim | sed 's,$, includes HDF5,'
  true
)
[ -z "$problems" ] || { echo "$problems"; exit 1; }
