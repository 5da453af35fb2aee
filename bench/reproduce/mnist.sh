#!/bin/sh
# What `make reproduce-mnist` runs: the MNIST row of arXiv:2605.27292, 5 canary
# sets x 3 audits of each kind, with seeds that were fixed before any result was
# seen. It goes on where it was stopped.
set -eu
cd "$(dirname "$0")/../.."
seed=27292
runs=${AVIARY_REPRODUCE:-runs/reproduce}
mkdir -p "$runs"
# The variant declared beforehand: pixels may leave [0, 1].
if [ ! -e "$runs/unclipped.npz" ]; then
  if [ -d "$runs/unclipped.craft" ]; then
    bin/aviary craft --resume --out "$runs/unclipped.npz"
  else
    bin/aviary craft --data mnist --sets 5 --seed $seed --clip-pixels=false --out "$runs/unclipped.npz"
  fi
fi
if [ -e "$runs/mnist/journal.jsonl" ]; then
  bin/aviary audit --resume --out "$runs/mnist"
else
  bin/aviary audit --data mnist --canaries "random,mislabeled,self-influence,greedy,ibis,$runs/unclipped.npz" \
    --num-canaries 1000 --sets 5 --audits 3 --seed $seed --out "$runs/mnist"
fi
go run ./bench/reproduce "$runs/mnist/report.json" bench/results/mnist.json
