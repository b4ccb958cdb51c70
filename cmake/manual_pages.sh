#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Writes the manual pages from the output of the program: manual_pages.sh PROGRAM FOLDER
# help2man writes tapestry.1 and tapestry-COMMAND.1 for each command. tapestry-config.5 comes from
# `tapestry config explain`. SOURCE_DATE_EPOCH sets their date.
set -euo pipefail
program=$(realpath "$1")
mkdir -p "$2/man1" "$2/man5"
folder=$(realpath "$2")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$("$program" --version)
cd "$work"

# page NAME PURPOSE [OPTION ...]: writes the page of the program NAME in the current folder
page() {
  help2man --no-info --manual='Tapestry manual' --source="$version" --version-string="${version#* }" \
    --name="$2" --output="$folder/man1/$1.1" "${@:3}" "./$1"
}

ln -s "$program" tapestry
page tapestry 'train Transformers on CPUs' --include="$here/../train/cli/manual.h2m"
while IFS=$'\t' read -r command purpose; do
  printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$program" "$command" >"tapestry-$command"
  chmod +x "tapestry-$command"
  page "tapestry-$command" "${purpose,}"
done < <("$program" complete '')

# The output of `config explain`: `section:`, and for each key a comment and `key: value  # default`.
printf 'data:\n  task: copy\n' >copy.yaml
"$program" config explain copy.yaml >keys
{
  date -u ${SOURCE_DATE_EPOCH:+-d "@$SOURCE_DATE_EPOCH"} '+.TH TAPESTRY-CONFIG 5 %Y-%m-%d'
  cat <<'ROFF'
.SH NAME
tapestry-config \- config files of tapestry
.SH DESCRIPTION
A config is a YAML file of sections with keys and values. Missing keys have their default values. On
the command line, section.key=value replaces a value of the file; the last override of a key wins,
and values need no quotes. Relative paths of data are resolved against the folder of the config
file, in an override against the working directory.
.PP
Keys that the chosen task, model, optimizer or schedule does not use must have their default values.
All errors are reported together, each with its line and a hint.
.SH KEYS
Each key is shown with its default value.
ROFF
  awk '{ gsub(/\\/, "\\\\"); gsub(/-/, "\\-") }
    /^[a-z]/ { sub(/:.*/, ""); print ".SS " $0; next }
    / # (default|copy.yaml:[0-9]+)$/ {
      sub(/ *# [^#]*$/, "")
      sub(/^  (# )?/, "")
      print ".TP\n\\fB" $0 "\\fR\n" meaning
      next
    }
    { meaning = substr($0, 5); sub(/; not used, only with/, "; only with", meaning) }' keys
  echo '.SH SEE ALSO'
  echo '.BR tapestry (1)'
} >"$folder/man5/tapestry-config.5"
