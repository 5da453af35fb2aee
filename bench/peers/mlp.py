"""An MLP in torch without autograd, and MNIST: shared by the peers.

Import it after timing.prepare(), which fixes the threads.
"""

import gzip
import os
import struct

import torch

LR, MOMENTUM, DECAY, EMA = 0.1, 0.9, 1e-5, 0.9


class Flat:
    """An MLP whose parameters and gradients are views of two flat vectors."""

    def __init__(self, sizes):
        self.shapes = [s for i, o in zip(sizes, sizes[1:]) for s in ((o, i), (o,))]
        self.cut = torch.cumsum(torch.tensor([0] + [torch.Size(s).numel() for s in self.shapes]), 0).tolist()
        self.p = torch.zeros(self.cut[-1])
        self.p.grad = torch.zeros(self.cut[-1])
        self.w, self.b = self.split(self.p)
        self.gw, self.gb = self.split(self.p.grad)
        for w in self.w:
            w.normal_(0, (2 / w.shape[1]) ** 0.5)

    def split(self, flat):
        """The weights and biases of a flat vector, as views."""
        views = [flat[a:b].view(s) for a, b, s in zip(self.cut, self.cut[1:], self.shapes)]
        return views[0::2], views[1::2]

    def forward(self, x):
        """The inputs of every layer, and the logits last."""
        h = [x]
        for w, b in zip(self.w[:-1], self.b[:-1]):
            h.append(torch.addmm(b, h[-1], w.t()).relu_())
        h.append(torch.addmm(self.b[-1], h[-1], self.w[-1].t()))
        return h

    def deltas(self, h, y):
        """Gradients of each example's own loss with respect to every layer's output."""
        d = torch.softmax(h[-1], 1)
        d[torch.arange(len(y)), y] -= 1
        all = [d]
        for w, x in zip(self.w[:0:-1], h[-2:0:-1]):
            d = torch.ops.aten.threshold_backward(d @ w, x, 0)
            all.append(d)
        return all[::-1]

    def accumulate(self, h, d):
        for gw, gb, x, dy in zip(self.gw, self.gb, h, d):
            torch.mm(dy.t(), x, out=gw)
            torch.sum(dy, 0, out=gb)

    def gradient(self, x, y):
        """The gradient of the mean loss, in p.grad."""
        h = self.forward(x)
        d = self.deltas(h, y)
        for dy in d:
            dy.div_(len(y))
        self.accumulate(h, d)


def sgd(params):
    return torch.optim.SGD(params, lr=LR, momentum=MOMENTUM, weight_decay=DECAY, fused=True)


@torch.no_grad()
def fit(net, x, y, epochs, batch=256):
    """Train a Flat by SGD with momentum; its parameters end as their average over steps."""
    opt, ema = sgd([net.p]), net.p.detach().clone()
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), batch):
            pick = order[i : i + batch]
            net.gradient(x[pick], y[pick])
            opt.step()
            ema.lerp_(net.p, 1 - EMA)
    net.p.copy_(ema)


def idx(folder, name):
    path = os.path.join(folder, name)
    with gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb") as f:
        raw = f.read()
    dims = struct.unpack(">%dI" % raw[3], raw[4 : 4 + 4 * raw[3]])
    return torch.frombuffer(bytearray(raw[4 + 4 * raw[3] :]), dtype=torch.uint8).view(dims)


def digits(folder):
    """The 60,000 training digits: [N, 784] in 0..1, and labels."""
    x = idx(folder, "train-images-idx3-ubyte").reshape(-1, 784).float() / 255
    return x, idx(folder, "train-labels-idx1-ubyte").long()
