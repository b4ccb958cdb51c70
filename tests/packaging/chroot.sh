#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Tries the Debian packages in a bare Debian 12, as root: chroot.sh CHROOT FOLDER
# FOLDER has the packages that cpack has written. Creates CHROOT with debootstrap if it does not
# exist, installs the packages there with their dependencies, and uses them: program, manual pages,
# completion, and the projects of installed.sh with Debian's CMake. Prints a line for each step; the
# exit code is 1 if one fails.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)
root=$1
packages=$(realpath "$2")
log=$(mktemp)
failed=0

if [ ! -d "$root" ]; then debootstrap --variant=minbase bookworm "$root" >"$log"; fi
root=$(realpath "$root")
leave() {
  umount "$root/dev/pts" "$root/proc" || true
  rm -f "$log"
}
trap leave EXIT
mount -t proc proc "$root/proc"
mount -t devpts -o ptmxmode=0666 devpts "$root/dev/pts"

inside() {
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive bash -euo pipefail -c "$1"
}

# step NAME COMMANDS: runs the commands in the chroot, in a folder that all steps share.
step() {
  local began=$SECONDS
  if inside "mkdir -p /tmp/trial && cd /tmp/trial && $2" >"$log" 2>&1; then
    echo "ok      $1 ($((SECONDS - began)) s)"
  else
    echo "FAILED  $1"
    tail -n 40 "$log"
    failed=1
  fi
}

rm -rf "$root/tmp/trial" "$root/tmp/packages" "$root/tmp/source"
mkdir -p "$root/tmp/packages" "$root/tmp/source"
for name in tapestry tapestry-mpi libtapestry-dev; do
  cp "$packages/${name}_"*.deb "$root/tmp/packages/$name.deb"
done
tar -C "$source" --exclude=./.build --exclude=./.git --exclude=./runs -c . | tar -C "$root/tmp/source" -x
install='apt-get install -y -qq --no-install-recommends'

# Removes the packages of an earlier trial in the same folder.
inside 'apt-get purge -y -qq tapestry tapestry-mpi libtapestry-dev' >"$log" 2>&1 || true
step 'apt-get install ./tapestry.deb' "apt-get update -qq; $install /tmp/packages/tapestry.deb"
step 'tapestry --version' 'tapestry --version | grep -x "tapestry [0-9.]*"'
step 'tapestry train, --resume and evaluate' '
  example=/usr/share/doc/tapestry/examples/copy.yaml
  sizes="data.train_size=500 data.validation_size=20 data.test_size=20"
  tapestry train $example $sizes train.steps=40 train.save_every=20
  tapestry train --resume runs/copy train.steps=60 schedule.decay_steps=60 \
    --allow-change schedule.decay_steps
  tapestry evaluate runs/copy | grep "held-out pairs"
  tapestry gradcheck $example $sizes model.d_model=8 model.d_ff=8 --coordinates 1'
step 'tapestry inspect: the checkpoint is there' 'tapestry inspect runs/copy | grep "step 60"'
step 'two processes need tapestry-mpi, and give the checkpoint of one process' "
  config='/usr/share/doc/tapestry/examples/copy.yaml data.train_size=500 data.validation_size=20
    data.test_size=20 train.accumulate=2 train.batch_size=16 train.steps=4 train.threads=1'
  two='mpirun --allow-run-as-root --oversubscribe -n 2 tapestry train'
  $install openmpi-bin
  ! \$two \$config >rejected 2>&1
  grep 'install the Debian package tapestry-mpi' rejected
  $install /tmp/packages/tapestry-mpi.deb
  for start in 'tapestry train' \"\$two\"; do
    rm -rf runs/copy
    \$start \$config
    sha256sum runs/copy/checkpoints/*4.h5 >>digests
  done
  [ \$(cut -d ' ' -f 1 digests | sort -u | wc -l) = 1 ]"
step 'completion in Bash' '
  source /usr/share/bash-completion/completions/tapestry
  COMP_WORDS=(tapestry trai) COMP_CWORD=1
  _tapestry
  [ "${COMPREPLY[*]}" = train ]'
step 'manual pages' "$install man-db mandoc
  man tapestry | grep 'Exit codes:'
  man tapestry-train | grep allow-change
  man 5 tapestry-config | grep d_model
  whatis tapestry | grep 'train Transformers'
  for page in /usr/share/man/man?/tapestry*.gz; do zcat \$page | mandoc -T lint -W error; done"
step 'apt-get remove' 'apt-get remove -y -qq tapestry tapestry-mpi; ! find /usr -name "*tapestry*" | grep .'
step 'apt-get install ./libtapestry-dev.deb, without the program' \
  "$install /tmp/packages/libtapestry-dev.deb; ! command -v tapestry"
step 'compiler, CMake and Python of Debian' \
  "$install g++ cmake make python3; cmake --version; $install /tmp/packages/tapestry.deb"
step 'find_package, pkg-config, ctypes' '/tmp/source/tests/packaging/installed.sh /usr'
step 'libraries for building Tapestry' \
  "$install libxsimd-dev librandom123-dev libxtensor-blas-dev libcli11-dev"
step 'add_subdirectory' '/tmp/source/tests/packaging/installed.sh /usr /tmp/source'
exit $failed
