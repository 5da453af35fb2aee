"""Sentence embeddings with all-MiniLM-L6-v2 by transformers (torch) and by onnxruntime,
float32, from token ids: the layers, the mean over each text's tokens, length 1."""

import contextlib
import os
import sys
import tempfile

import timing

args = timing.prepare(__doc__, lambda p: p.add_argument("--minilm", default="data/minilm", help="folder of make data-minilm"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import AutoModel  # noqa: E402

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

# The texts and tokens of each batch: as when many texts are sorted, padding costs
# nothing. bench/encoder.go has the same.
LOADS = {"short": ((32, 48), (32, 16)), "long": ((16, 128),)}
torch.set_num_threads(args.threads)
torch.set_grad_enabled(False)


def batches(load):
    """(ids, mask) for each batch, int64."""
    out, i = [], 0
    for texts, tokens in LOADS[load]:
        ids = [[101] + [1000 + (r * 131 + j * 17) % 20000 for j in range(tokens - 2)] + [102] for r in range(i, i + texts)]
        out.append((np.array(ids, np.int64), np.ones((texts, tokens), np.int64)))
        i += texts
    return out


class Embedder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = AutoModel.from_pretrained(args.minilm).eval()

    def forward(self, ids, mask):
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        wide = mask[:, :, None].to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * wide).sum(1) / wide.sum(1))


def by_torch(load, compiled):
    model = Embedder()
    if compiled:
        model = torch.compile(model, dynamic=True)
    data = [(torch.from_numpy(a), torch.from_numpy(b)) for a, b in batches(load)]

    def run():
        for ids, mask in data:
            model(ids, mask)

    return run, ""


def by_onnxruntime(load, fused):
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "minilm.onnx")
    ids = torch.ones(2, 8, dtype=torch.int64)
    rows, cols = torch.export.Dim("rows", max=4096), torch.export.Dim("cols", max=512)
    with contextlib.redirect_stdout(sys.stderr):  # the answers go to standard output
        torch.onnx.export(Embedder(), (ids, ids), path, dynamo=True, verbose=False, external_data=False,
                          dynamic_shapes={"ids": {0: rows, 1: cols}, "mask": {0: rows, 1: cols}}, input_names=["ids", "mask"])
        if fused:
            from onnxruntime.transformers import optimizer

            m = optimizer.optimize_model(path, model_type="bert", num_heads=12, hidden_size=384)
            path = os.path.join(folder, "fused.onnx")
            m.save_model_to_file(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    data = [{"ids": a, "mask": b} for a, b in batches(load)]

    def run():
        for feed in data:
            session.run(None, feed)

    return run, ""


rows = {}
for name in LOADS:
    rows[f"embed/{name}/torch"] = lambda name=name: by_torch(name, False)
    rows[f"embed/{name}/torch-compile"] = lambda name=name: by_torch(name, True)
    if onnxruntime:
        rows[f"embed/{name}/onnxruntime"] = lambda name=name: by_onnxruntime(name, False)
        rows[f"embed/{name}/onnxruntime-fused"] = lambda name=name: by_onnxruntime(name, True)
versions = {"transformers": transformers.__version__, "torch": torch.__version__}
if onnxruntime:
    versions["onnxruntime"] = onnxruntime.__version__
timing.main(args, versions, rows)
