"""Writes models/testdata/torch_mlp.json: what torch computes, in float64, for a
tiny MLP whose every number is a multiple of a power of two, so that the inputs
are the same to the last bit wherever they are read.

    bench/.venv/bin/python bench/peers/oracles_mlp.py > models/testdata/torch_mlp.json

Weights are [in, out], row-major, as our Linear keeps them. The loss is the mean
cross-entropy over the batch, except where clipping asks for each example's own.
"""

import json
import sys

import torch

torch.set_default_dtype(torch.float64)

SIZES = [5, 7, 6, 4]
BATCH = 8
CLIP = 1.0
LR, MOMENTUM, DECAY, STEPS = 0.125, 0.875, 0.03125, 10


def lattice(shape, step, period, scale, shift=0):
    """Element i is ((step i + shift) mod period - period div 2) / scale."""
    i = torch.arange(torch.Size(shape).numel())
    return (((step * i + shift) % period - period // 2) / scale).reshape(shape)


def parameters(scale, shift):
    shapes = [s for i, o in zip(SIZES, SIZES[1:]) for s in ((i, o), (o,))]
    return [lattice(s, 7, 31, scale, shift + 3 * k) for k, s in enumerate(shapes)]


x = lattice((BATCH, SIZES[0]), 5, 23, 8)
y = torch.arange(BATCH) * 3 % SIZES[-1]
start = parameters(32, 1)
v = parameters(16, 11)  # the direction of the HVP and of the mixed derivative


def logits(p, x, watch=None):
    for k in range(0, len(p), 2):
        x = x @ p[k] + p[k + 1]
        if k + 2 < len(p):
            if watch is not None:
                watch.append(x.abs().min().item())
            x = x.relu()
    return x


def losses(p, x, y):
    return torch.nn.functional.cross_entropy(logits(p, x), y, reduction="none")


p = [w.clone().requires_grad_() for w in start]
xv = x.clone().requires_grad_()
kinks = []
logits(p, x, kinks)
assert min(kinks) > 1e-3, f"a ReLU sits on its kink: {kinks}"

loss = losses(p, xv, y)
grad = torch.autograd.grad(loss.mean(), p, create_graph=True)
directional = sum((g * d).sum() for g, d in zip(grad, v))
second = torch.autograd.grad(directional, p + [xv])
hvp, mixed = second[:-1], second[-1]

clipped, norms = [torch.zeros_like(w) for w in start], []
for i in range(BATCH):
    g = torch.autograd.grad(losses(p, x[i : i + 1], y[i : i + 1]).sum(), p)
    norm = torch.cat([t.flatten() for t in g]).norm().item()
    norms.append(norm)
    for c, t in zip(clipped, g):
        c += t * min(1, CLIP / norm)
assert min(norms) < CLIP < max(norms), f"clip some and not others: {norms}"

opt = torch.optim.SGD(p, lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
training = []
for _ in range(STEPS):
    opt.zero_grad()
    mean = losses(p, x, y).mean()
    mean.backward()
    training.append(mean.item())
    opt.step()


def flat(ts):
    return [t.detach().flatten().tolist() for t in ts]


json.dump(
    {
        "script": "bench/peers/oracles_mlp.py",
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "sizes": SIZES,
        "x": flat([x])[0],
        "y": y.tolist(),
        "parameters": flat(start),
        "direction": flat(v),
        "losses": flat([loss])[0],
        "gradient": flat(grad),
        "hvp": flat(hvp),
        "mixed": flat([mixed])[0],
        "clip": CLIP,
        "norms": norms,
        "clipped_sum": flat(clipped),
        "sgd": {"lr": LR, "momentum": MOMENTUM, "decay": DECAY},
        "training_losses": training,
        "trained": flat(p),
    },
    sys.stdout,
    indent=1,
)
print()
