"""Runs docs/pytorch.md: its commands and its code, in their order, as they stand there.

    bench/.venv/bin/python bench/peers/torch_losses.py

trains on 8000 of the MNIST test digits in a temporary folder. What the page
leaves to the reader, mine.py, is written here. The script fails unless the audit
of the models finds the mislabeled canaries: an AUC above 0.6, where coins that
went wrong would give 0.5 ± 0.02.
"""

import timing

args = timing.prepare(__doc__, lambda p: p.add_argument("--aviary", default="bin/aviary"))

import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "docs", "pytorch.md")
MINE = """
import sys
sys.path.insert(0, {here!r})
import torch
from mlp import idx
torch.manual_seed(1)
torch.set_num_threads({threads})
x = idx({data!r}, "t10k-images-idx3-ubyte").unsqueeze(1).float() / 255
y = idx({data!r}, "t10k-labels-idx1-ubyte").long()
train_set = torch.utils.data.TensorDataset(x[:8000], y[:8000])
test_set = torch.utils.data.TensorDataset(x[8000:], y[8000:])
"""

with open(PAGE) as f:
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```$", f.read(), re.M | re.S)
if [kind for kind, _ in blocks] != ["python", "sh", "python", "sh"]:
    sys.exit(f"{PAGE}: blocks are {[kind for kind, _ in blocks]}, expected python, sh, python, sh")

with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "mine.py"), "w") as f:
        f.write(MINE.format(here=HERE, threads=args.threads, data=os.path.abspath(args.data)))
    path = os.path.dirname(os.path.abspath(args.aviary)) + os.pathsep + os.environ["PATH"]
    env = dict(os.environ, PATH=path, PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=folder)

    def run(*command):
        print("$", command[-1].strip() if command[0] == "sh" else f"(Python, {command[-1].count(chr(10))} lines)", flush=True)
        subprocess.run(command, cwd=folder, env=env, check=True)

    for kind, text in blocks:
        run(*(["sh", "-ec", text] if kind == "sh" else [sys.executable, "-c", text]))
    report = subprocess.run(
        [args.aviary, "audit", "score", os.path.join(folder, "plan"), os.path.join(folder, "losses.csv"), "--json"],
        capture_output=True, check=True,
    )
    losses = [line.rsplit(",", 1)[1] for line in open(os.path.join(folder, "losses.csv"))][1:]
    auc = json.loads(report.stdout)["methods"][0]["auc"]["mean"]
    print(f"{len(losses)} losses, {len(set(losses))} different; mean AUC {auc:.3f}")
    if not auc > 0.6:
        sys.exit("the models' losses do not tell the canaries that were in: expected an AUC above 0.6")
    if len(set(losses)) != len(losses):
        sys.exit("losses tie: they were rounded")
