#!/bin/sh
# The ablation of figure 1(a) of arXiv:2605.27292 on MNIST: where refinement
# starts from, with the regulariser and without it, 2 canary sets x 3 audits. It
# goes on where it was stopped.
set -eu
cd "$(dirname "$0")/../.."
runs=${AVIARY_REPRODUCE:-runs/ablation} seed=27292
mkdir -p "$runs"
kinds=mislabeled
for init in random self-influence greedy; do
  for lambda in 0 3; do
    file=$runs/$init-lambda-$lambda.npz
    kinds=$kinds,$file
    [ -e "$file" ] && continue
    if [ -d "${file%.npz}.craft" ]; then
      bin/aviary craft --resume --out "$file"
    else
      bin/aviary craft --data mnist --init $init --lambda $lambda --sets 2 --seed $seed --out "$file"
    fi
  done
done
if [ -e "$runs/audit/journal.jsonl" ]; then
  bin/aviary audit --resume --out "$runs/audit"
else
  bin/aviary audit --data mnist --canaries "$kinds" --num-canaries 1000 --sets 2 --audits 3 --seed $seed --out "$runs/audit"
fi
go run ./bench/reproduce "$runs/audit/report.json" bench/results/ablation.json
