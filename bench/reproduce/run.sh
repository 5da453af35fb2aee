#!/bin/sh
# What `make reproduce-mnist` and `make reproduce-fashion` run: the MNIST row of
# arXiv:2605.27292 on the data DATA, 5 canary sets x 3 audits of each kind, with
# a seed that was fixed before any result was seen. It goes on where it was
# stopped.
#
#   run.sh DATA NAME
set -eu
cd "$(dirname "$0")/../.."
data=$1 name=$2 seed=27292
runs=${AVIARY_REPRODUCE:-runs/reproduce-$name}
mkdir -p "$runs"
# The variant declared beforehand: pixels may leave [0, 1].
if [ ! -e "$runs/unclipped.npz" ]; then
  if [ -d "$runs/unclipped.craft" ]; then
    bin/aviary craft --resume --out "$runs/unclipped.npz"
  else
    bin/aviary craft --data "$data" --sets 5 --seed $seed --clip-pixels=false --out "$runs/unclipped.npz"
  fi
fi
if [ -e "$runs/audit/journal.jsonl" ]; then
  bin/aviary audit --resume --out "$runs/audit"
else
  bin/aviary audit --data "$data" --canaries "random,mislabeled,self-influence,greedy,ibis,$runs/unclipped.npz" \
    --num-canaries 1000 --sets 5 --audits 3 --seed $seed --out "$runs/audit"
fi
go run ./bench/reproduce "$runs/audit/report.json" "bench/results/$name.json"
