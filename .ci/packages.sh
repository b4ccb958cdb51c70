#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs missing Debian packages that building Tapestry needs, and packages given as arguments. Runs
# apt-get as root or with sudo; if neither is possible, prints the missing packages.
set -euo pipefail

packages=(
  cmake g++ ninja-build pkg-config
  doctest-dev libbenchmark-dev libcli11-dev libfmt-dev libhdf5-dev libopenblas-dev
  libopenmpi-dev librandom123-dev libsentencepiece-dev libspdlog-dev nlohmann-json3-dev libutf8proc-dev
  libxsimd-dev libxtensor-blas-dev libxtensor-dev libxxhash-dev libyaml-cpp-dev openmpi-bin python3 strace xtl-dev
  "$@"
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [ "$status" = 'install ok installed' ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "These Debian packages are missing: ${missing[*]}" >&2
    echo "hint: as root, apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
