#!/bin/sh
# Builds the API reference, and fails if Doxygen warns: build.sh DOXYGEN DOXYFILE FOLDER
set -eu

mkdir -p "$3"
"$1" "$2"
# The tree of pages names functions with their namespace whatever the settings are.
sed -i 's/\[ "tapestry::/[ "/' "$3"/html/*.js
