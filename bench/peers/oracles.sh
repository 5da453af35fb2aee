#!/bin/sh
# Makes the committed oracle values again, with the Python environment of `make peers`.
# Afterwards `git diff` shows what another version of a package computes differently.
set -eu
cd "$(dirname "$0")/../.."
python=bench/.venv/bin/python
if ! "$python" -c 'import numpy, torch' 2>/dev/null; then
	echo "oracles: torch and numpy are needed: run make peers" >&2
	exit 1
fi
out=models/testdata/torch_mlp.json
"$python" bench/peers/oracles_mlp.py >"$out.new"
mv "$out.new" "$out"
echo "wrote $out"
if "$python" -c 'import transformers, sentence_transformers' 2>/dev/null; then
	"$python" bench/peers/oracles_encoder.py models/hf/testdata data/minilm
else
	echo "oracles: no transformers and sentence-transformers: the encoder's values stay as they are" >&2
fi
if "$python" -c 'import tokenizers' 2>/dev/null && [ -f data/minilm/tokenizer.json ]; then
	"$python" bench/peers/oracles_tokenizer.py models/hf/tokenizer data/minilm/tokenizer.json
else
	echo "oracles: no tokenizers or no data/minilm (make data-minilm): the tokenizers' values stay as they are" >&2
fi
