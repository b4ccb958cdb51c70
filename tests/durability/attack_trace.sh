#!/bin/sh
# Reads every attack file under strace: it must be refused, and no other file be opened than itself.
# That the tricks work is shown by a reader that trusts them: the files with external storage, an
# external link and a virtual dataset make it open the secret.
#
#     attack_trace.sh READER PROGRAM      the programs attack_reader and tapestry
set -eu
reader=$1 program=$2
strace -o /dev/null true 2>/dev/null || { echo "strace may not trace here"; exit 77; }

folder=$(mktemp -d) config=$(mktemp)
trap 'rm -rf "$folder" "$config"' EXIT
echo 'data: {task: images, train_images: none}
model: {kind: vision_transformer}' >"$config"
mkdir "$folder/plugins" "$folder/attacks"
export HDF5_PLUGIN_PATH="$folder/plugins"
"$reader" make "$folder/attacks"

# opened COMMAND...: what the command opens in the folder, or tries to; its exit code in $code.
opened() {
  code=0
  strace -f -qq -e trace=open,openat,openat2,creat -o "$folder/trace" "$@" >/dev/null 2>&1 || code=$?
  grep -o "\"$folder[^\"]*\"" "$folder/trace" | tr -d '"' | sort -u
}

# check CODE FILE COMMAND...: the command ends with the code and opens that file alone.
check() {
  expected=$1 file=$2
  shift 2
  opened "$@" >"$folder/opened"
  if [ "$code" != "$expected" ] || [ "$(cat "$folder/opened")" != "$file" ]; then
    echo "$*: exit code $code, opened:" $(cat "$folder/opened")
    exit 1
  fi
}

count=0
for file in "$folder"/attacks/raw-*.h5 "$folder"/attacks/wrapped-*.h5; do
  check 0 "$file" "$reader" verify "$file"
  check 4 "$file" "$program" inspect "$file"
  check 4 "$file" "$program" evaluate "$file"
  count=$((count + 1))
done

for file in "$folder"/attacks/images-*.h5; do
  check 3 "$file" "$program" train "$config" data.train_images="$file"
  count=$((count + 1))
done

reached=0
for file in "$folder"/attacks/raw-*.h5; do
  opened "$reader" trust "$file" >"$folder/opened"
  if grep -q "/secret$" "$folder/opened"; then reached=$((reached + 1)); fi
done
echo "$count attack files opened no other file; $reached of them do, if they are trusted"
[ "$count" -ge 40 ] && [ "$reached" -eq 3 ]
