#!/bin/sh
# The interference within one set of 1000 canaries on MNIST, by exact toggles of
# 20 canaries in 10 random subsets of the others: of chosen examples that are not
# refined, and refined with λ = 0, 1 and 3. It goes on where it was stopped.
set -eu
cd "$(dirname "$0")/../.."
runs=${AVIARY_REPRODUCE:-runs/interference} seed=27292
mkdir -p "$runs"
results=
for kind in selection lambda-0 lambda-1 lambda-3; do
  file=$runs/$kind.npz
  if [ ! -e "$file" ]; then
    if [ -d "${file%.npz}.craft" ]; then
      bin/aviary craft --resume --out "$file"
    elif [ $kind = selection ]; then
      bin/aviary craft --data mnist --method greedy --sets 1 --seed $seed --out "$file"
    else
      bin/aviary craft --data mnist --lambda "${kind#lambda-}" --sets 1 --seed $seed --out "$file"
    fi
  fi
  if [ -e "$runs/$kind/journal.jsonl" ]; then
    bin/aviary audit interference --resume --out "$runs/$kind"
  else
    bin/aviary audit interference --data mnist --canaries "$file" --toggled 20 --subsets 10 --seed $seed --out "$runs/$kind"
  fi
  results="$results $kind=$runs/$kind/result.json"
done
go run ./bench/reproduce interference bench/results/interference.json $results
