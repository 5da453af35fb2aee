#!/bin/sh
# Looks for a better recipe than the default on canary sets that no reported
# figure uses (seed 4, 2 sets x 3 audits): one change at a time, then some that
# are no images. It goes on where it was stopped.
#
#   tune.sh DATA NAME
set -eu
cd "$(dirname "$0")/../.."
data=$1 name=$2 seed=4
runs=${AVIARY_REPRODUCE:-runs/tune-$name}
mkdir -p "$runs"
kinds=mislabeled
craft() {
  out=$runs/$1.npz
  kinds=$kinds,$out
  shift
  [ -e "$out" ] && return
  if [ -d "${out%.npz}.craft" ]; then
    bin/aviary craft --resume --out "$out"
  else
    bin/aviary craft --data "$data" --sets 2 --seed $seed --out "$out" "$@"
  fi
}
craft default
craft lambda-1 --lambda 1
craft lambda-10 --lambda 10
craft rho-.006 --rho .006
craft rho-.024 --rho .024
craft steps-940 --steps 940
craft flip --labels flip
craft theta0-other --theta0-init other
craft init-self --init self-influence
craft init-random --init random
craft free --clip-pixels=false
craft free-flip --clip-pixels=false --labels flip
craft free-rho-.024 --clip-pixels=false --rho .024
craft free-rho-.024-lambda-10 --clip-pixels=false --rho .024 --lambda 10
if [ -e "$runs/audit/journal.jsonl" ]; then
  bin/aviary audit --resume --out "$runs/audit"
else
  bin/aviary audit --data "$data" --canaries "$kinds" --num-canaries 1000 --sets 2 --audits 3 --seed $seed --out "$runs/audit"
fi
go run ./bench/reproduce "$runs/audit/report.json" "bench/results/tune-$name.json"
