#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Links Tapestry as a user's project does: check.sh BUILD [--full]
# Installs BUILD to a temporary folder and runs installed.sh on it. --full also builds the project
# next to this script with add_subdirectory(), which compiles Tapestry again.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
if [ "${2:-}" = --full ]; then
  "$here/installed.sh" "$work/prefix" "$here/../.."
else
  "$here/installed.sh" "$work/prefix"
fi
