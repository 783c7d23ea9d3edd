#!/usr/bin/env bash
# Makes Python modules of .proto files, all in the package ptod.v1.
# Usage: make_messages.sh PROTOC DESTINATION FILE...
set -euo pipefail
protoc=$1 destination=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/out" "$destination"
# contexts.proto is imported by nobody, so its folder does not matter.
for file in "$@"; do
  case $file in
    *pto/v1/*) echo "pto/v1/$(basename "$file")" && cp -L "$file" "$work/" ;;
    *) echo "contexts.proto" && cp -L "$file" "$work/contexts.proto" ;;
  esac
done >"$work/files"
mkdir -p "$work/in/pto/v1"
while read -r file; do
  cp "$work/$(basename "$file")" "$work/in/$file"
done <"$work/files"
xargs "$protoc" --proto_path="$work/in" --proto_path=/usr/include --python_out="$work/out" \
  --pyi_out="$work/out" <"$work/files"
for file in "$work"/out/pto/v1/* "$work"/out/contexts*; do
  sed -E 's/^(from|import) pto\.v1\b/\1 ptod.v1/' "$file" >"$destination/$(basename "$file")"
done
