#!/bin/sh
# Makes bench/.venv, the Python environment of the peers that `make bench` compares with.
#
#   PYTHON=python3.11 sh bench/peers/setup.sh
#
# Every peer is optional: a package that cannot be installed costs its rows of
# the table and nothing else, so this script then says which and exits 0.
# torch weighs 5 GB on disk; where that is too much, install Debian's
# python3-torch and python3-numpy and run this with PYTHON=/usr/bin/python3.
set -u
here=$(cd "$(dirname "$0")" && pwd)
venv=$here/../.venv
PYTHON=${PYTHON:-python3}

if ! command -v "$PYTHON" >/dev/null; then
	echo "peers: no $PYTHON: every peer row will be missing"
	exit 0
fi

# A Python that already has torch (Debian's) lends it to the environment.
site=
if "$PYTHON" -c 'import numpy, torch' 2>/dev/null; then
	site=--system-site-packages
fi
if ! "$PYTHON" -m venv $site "$venv"; then
	echo "peers: $PYTHON cannot make a virtual environment (Debian: python3-venv): every peer row will be missing"
	exit 0
fi

# install NAME ROWS [OPTION] [PACKAGE] installs the pinned PACKAGE, else NAME, unless it is there.
install() {
	"$venv/bin/python" -c "import $1" 2>/dev/null && return 0
	"$venv/bin/python" -m pip install --quiet ${3:-} "$(grep "^${4:-$1}==" "$here/requirements.txt")" &&
		"$venv/bin/python" -c "import $1" && return 0
	echo "peers: $1 could not be installed: missing rows: $2"
}
install numpy "GEMM by OpenBLAS, and every row of torch"
install torch "GEMM by torch, steps, gradient+HVP, training"
# Without what they depend on, which is here already: Opacus asks for other versions of torch.
install scipy "scipy's Clopper-Pearson bounds, and all of Opacus" --no-deps
install opt_einsum "all of Opacus" --no-deps
install opacus "accounting and calibration by Opacus" --no-deps
install faiss "routing by faiss" "" faiss-cpu
# The encoder's peers: transformers, and what its model is exported with.
install transformers "embeddings, all of them"
install onnx "embeddings by onnxruntime"
install onnxscript "embeddings by onnxruntime"
install onnxruntime "embeddings by onnxruntime"
# Not a peer: its values are in testdata (make oracles).
install sentence_transformers "none, but make oracles cannot make the encoder's values" "" sentence-transformers

"$venv/bin/python" - <<'PY'
for name in ("numpy", "torch", "scipy", "opacus", "faiss", "transformers", "onnxruntime"):
    try:
        print("peers:", name, __import__(name).__version__)
    except ImportError:
        print("peers:", name, "missing")
PY
exit 0
