#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Generates the data of configs/translation.md, "Other tasks from text to text", checks it, and trains a
# tiny model on it with the commands of that page.
#
# text_data.sh PROGRAM   exit code 77: skipped
set -eu
program=$1
here=$(cd "$(dirname "$0")" && pwd)
config=$here/../../configs/multi30k.yaml
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
  echo "skipped: there is no python3 of version 3.9 or newer"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() { echo "failed: $*"; exit 1; }
lines() { wc -l < "$1"; }
small=(model.d_model=16 model.d_ff=16 model.num_encoder_layers=1 model.num_decoder_layers=1
  train.steps=2 train.threads=1 train.exact_match_sequences=2 decoding.beam_size=1 data.lowercase=false)

# ---- Summaries: equal for equal seeds, and correct.
"$here"/match_reports.py 200 reports
"$here"/match_reports.py 200 again
"$here"/match_reports.py 200 other --seed 2
cmp reports/reports.txt again/reports.txt
cmp reports/summaries.txt again/summaries.txt
! cmp -s reports/reports.txt other/reports.txt || fail "seeds 1 and 2 give the same reports"
[ "$(lines reports/reports.txt)" = 200 ] && [ "$(lines reports/summaries.txt)" = 200 ] ||
  fail "expected 200 reports and summaries"
paste reports/reports.txt reports/summaries.txt | awk -F '\t' '{
  goals = gsub(/ scored (for|through) | put the ball /, "&", $1)
  match($2, /[0-9]+ - [0-9]+/); split(substr($2, RSTART, RLENGTH), score, " - ")
  if (goals != score[1] + score[2]) { print "failed: " goals " goals, " $2; exit 1 }
}'
"$program" train "$config" data.train_source=reports/reports.txt data.train_target=reports/summaries.txt \
  data.validation_source=other/reports.txt data.validation_target=other/summaries.txt \
  data.test_source= data.test_target= data.vocabulary_size=300 model.max_length=400 \
  train.run_dir=runs/reports "${small[@]}" >/dev/null

# ---- Grammar: the same number of lines, with errors; no errors at rate 0.
"$here"/grammar_errors.py < other/summaries.txt > wrong.txt
"$here"/grammar_errors.py < other/summaries.txt | cmp - wrong.txt
[ "$(lines wrong.txt)" = 200 ] || fail "expected 200 lines with errors"
! grep -q '^ *$' wrong.txt || fail "a line is blank"
! cmp -s wrong.txt other/summaries.txt || fail "no line has an error"
"$here"/grammar_errors.py --rate 0 < other/summaries.txt | cmp - other/summaries.txt
"$program" train "$config" data.folder="$work" data.train_source=wrong.txt \
  data.train_target="$work"/other/summaries.txt data.validation_source=wrong.txt \
  data.validation_target="$work"/other/summaries.txt data.test_source= data.test_target= \
  data.vocabulary_size=200 train.run_dir=runs/grammar "${small[@]}" >/dev/null
