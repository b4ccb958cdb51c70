#!/bin/sh
# Builds the API reference, and fails if Doxygen or a filter warns: build.sh DOXYGEN DOXYFILE FOLDER
set -eu

mkdir -p "$3"
code=0
warnings=$("$1" "$2" 2>&1) || code=$?
if [ "$code" -ne 0 ] || [ -n "$warnings" ]; then
  printf '%s\n' "$warnings"
  exit 1
fi
# The tree of pages names functions with their namespace whatever the settings are.
sed -i 's/\[ "tapestry::/[ "/' "$3"/html/*.js
