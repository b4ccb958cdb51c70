#!/usr/bin/env bash
# Checks the manual pages with what formats and indexes them: manual.sh PROGRAM. The exit code is 77 if
# none of mandoc, man and lexgrog is installed.
set -euo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C.UTF-8 MANWIDTH=80 MANROFFOPT=

checked=0
fail() {
  echo "manual: $*" >&2
  exit 1
}

for page in tapestry.1 tapestry-config.5; do
  file=$work/$page
  SOURCE_DATE_EPOCH=86400 "$program" man "${page%.*}" >"$file"
  grep -q '^\.TH .* 1970-01-02 ' "$file" || fail "$page: SOURCE_DATE_EPOCH does not set the date"
  if command -v mandoc >/dev/null; then
    mandoc -T lint -W warning "$file" || fail "$page: mandoc finds mistakes"
    checked=1
  fi
  # Where documentation is left out of an installation, man is a script that says so.
  if command -v man >/dev/null && man --warnings -l "$file" >"$work/text" 2>"$work/warnings"; then
    [ ! -s "$work/warnings" ] || fail "$page: $(cat "$work/warnings")"
    if grep -q '^NAME' "$work/text"; then checked=1; fi
  fi
  if command -v lexgrog >/dev/null; then
    lexgrog "$file" | grep -q "\"${page%.*} - " || fail "$page: has no name and purpose"
    checked=1
  fi
done
if SOURCE_DATE_EPOCH=tomorrow "$program" man 2>"$work/error"; then fail "any date is accepted"; fi
grep -q 'SOURCE_DATE_EPOCH: expected a whole number' "$work/error" || fail "$(cat "$work/error")"
[ $checked = 1 ] || { echo "neither mandoc nor man is installed"; exit 77; }
echo "manual: all checks passed"
