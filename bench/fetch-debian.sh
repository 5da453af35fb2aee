#!/bin/sh
# Puts real text of many authors into data/debian: see bench/debian. The index
# files come from Debian's archive, which corrects them a few times a year.
set -eu
cd "$(dirname "$0")/.."
target=${AVIARY_DATA:-data}/debian
release=http://deb.debian.org/debian/dists/bookworm/main
if [ -e "$target/users.jsonl" ]; then
	echo "$target holds the descriptions already"
	exit 0
fi
command -v xz >/dev/null || { echo "fetch-debian: xz is missing (Debian: apt install xz-utils)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
for file in binary-amd64/Packages i18n/Translation-en; do
	curl -fsSL --retry 3 "$release/$file.xz" | xz -dc >"$work/$(basename $file)"
done
${GO:-go} run ./bench/debian "$work/Packages" "$work/Translation-en" "$target"
wc -l "$target"/*.jsonl
