"""IBIS on MNIST by torch: the crafting of one canary set, and a step of its refinement.

The recipe is that of `aviary craft`: a model of 7 epochs chooses 1000 of the
10,000 digits of the largest self-influence (K-FAC) greedily, two models of 20
epochs, without the canaries and with them, start the refinement, and 470 steps
move the canaries every 8.

Rows: craft/manual, everything without autograd (the passes in refine/manual are
faster than double backward), and refine/…, REFINE_STEPS steps which all move
the canaries. With --out the script crafts one set, prints the seconds of each
stage, and writes the canaries for `aviary audit --canaries FILE.npz`:

    bench/.venv/bin/python bench/peers/torch_ibis.py --threads 2 --out canaries.npz
"""

import timing


def options(parser):
    parser.add_argument("--out", default="", help="craft one set, print its stages, and write it to this file (.npz)")
    parser.add_argument("--seed", type=int, default=1)


args = timing.prepare(__doc__, options)

import time  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from mlp import Flat, digits, fit, idx  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(args.seed)

SIZES = (784, 256, 10)
CANARIES, PRESELECT, DAMPING = 1000, 10_000, 0.1
EPOCHS, THETA_EPOCHS = 7, 20
LAMBDA, RHO, ETA, STEPS, EVERY, BATCH = 3.0, 0.012, 0.05, 470, 8, 256
COLUMNS = 64  # of influence at once: about as fast as a product gets
REFINE_STEPS = 8  # also in bench/refine.go


# Influence by K-FAC.


def constant(h):
    return torch.cat([h, h.new_ones(len(h), 1)], 1)


def whiteners(a, s):
    """R with R Rᵀ = the inverse of either damped factor of a layer."""
    t_a, t_s = a.trace() / len(a), s.trace() / len(s)
    root, pi = (DAMPING * t_a * t_s).sqrt(), (t_a / t_s).sqrt()
    for m, add in ((a, pi * root), (s, root / pi)):
        chol = torch.linalg.cholesky(m + add * torch.eye(len(m)))
        yield torch.linalg.solve_triangular(chol, torch.eye(len(m)), upper=False).t()


def influence(net, x, y):
    """Whitened inputs and gradients of each layer, in which influence is
    Σ (u·u')(w·w'), and the self-influences."""
    h = net.forward(x)
    sampled = torch.multinomial(torch.softmax(h[-1], 1), 1).squeeze(1)
    layers, self_influence = [], 0
    for z, drawn, true in zip(h, net.deltas(h, sampled), net.deltas(h, y)):
        z = constant(z)
        r_a, r_s = whiteners(z.t() @ z / len(x), drawn.t() @ drawn / len(x))
        u, w = z @ r_a, true @ r_s
        layers.append((u, w))
        self_influence = self_influence + torch.linalg.vecdot(u, u) * torch.linalg.vecdot(w, w)
    return layers, self_influence


def greedy(layers, own, count):
    """Algorithm 2. Columns come in batches, with those of the next in line."""
    ratio, largest = own.clone(), torch.full_like(own, -torch.inf)
    least = 1e-6 * own.mean()
    chosen, columns = [], {}
    for _ in range(count):
        k = ratio.argmax().item()
        if k not in columns:
            unknown = ratio.clone()
            unknown[list(columns)] = -torch.inf
            js = unknown.topk(COLUMNS).indices
            columns.update(zip(js.tolist(), sum((u[js] @ u.t()) * (w[js] @ w.t()) for u, w in layers)))
        torch.maximum(largest, columns[k], out=largest)
        chosen.append(k)
        ratio = own / largest.clamp(min=least)
        ratio[chosen] = -torch.inf
    return chosen


# Refinement without autograd.


def relu_mask(d, h):
    return torch.ops.aten.threshold_backward(d, h, 0)


class Tangent:
    """Derivatives of the losses and, in direction v, of their gradients (Pearlmutter's R)."""

    def __init__(self, net, v, x, y):
        self.w, self.vw = net.w, net.split(v)[0]
        self.h, self.rh = net.forward(x), [None]
        for i, (vw, vb) in enumerate(zip(*net.split(v))):
            r = torch.addmm(vb, self.h[i], vw.t())
            if i:
                r.addmm_(self.rh[i], self.w[i].t())
            self.rh.append(relu_mask(r, self.h[i + 1]) if i + 1 < len(self.w) else r)
        p = torch.softmax(self.h[-1], 1)
        rd = p * (self.rh[-1] - torch.linalg.vecdot(p, self.rh[-1]).unsqueeze(1))
        d = p
        d[torch.arange(len(y)), y] -= 1
        self.d, self.rd = [d], [rd]
        for i in range(len(self.w) - 1, 0, -1):
            rd = relu_mask((rd @ self.w[i]).addmm_(d, self.vw[i]), self.h[i])
            d = relu_mask(d @ self.w[i], self.h[i])
            self.d.insert(0, d)
            self.rd.insert(0, rd)

    def gradient(self, out):
        for gw, gb, h, d in zip(*out, self.h, self.d):
            torch.mm(d.t(), h, out=gw)
            torch.sum(d, 0, out=gb)

    def hvp(self, out):
        for i, (gw, gb) in enumerate(zip(*out)):
            torch.mm(self.rd[i].t(), self.h[i], out=gw)
            if i:
                gw.addmm_(self.d[i].t(), self.rh[i])
            torch.sum(self.rd[i], 0, out=gb)

    def pixels(self, n):
        """∇ₓ ℓ - ∇²ₓθ ℓ v / n, with two products in place of three."""
        both = torch.add(self.d[0], self.rd[0], alpha=-1 / n)
        return (both @ self.w[0]).addmm_(self.d[0], self.vw[0], alpha=-1 / n)


def at_star(star, x, y):
    """∇ₓ (R - ℓ) at θ*, with R = λ Σ_{i≠j} cos²."""
    h = star.forward(x)
    norm = torch.linalg.vector_norm(h[-2], dim=1, keepdim=True).clamp_(min=1e-6)
    u = h[-2] / norm
    g = (u @ (u.t() @ u)).sub_(u).mul_(4 * LAMBDA)
    g.addcmul_(torch.linalg.vecdot(g, u).unsqueeze(1), u, value=-1).div_(norm)
    d = torch.softmax(h[-1], 1)
    d[torch.arange(len(y)), y] -= 1
    g.addmm_(d, star.w[-1], alpha=-1)
    for w, z in zip(star.w[-2::-1], h[-2:0:-1]):
        g = relu_mask(g, z) @ w
    return g


def copy_of(net):
    other = Flat(SIZES)
    other.p.copy_(net.p)
    return other


class Refinement:
    """Updates (4) to (6). x holds D and then the canaries, which move in place."""

    def __init__(self, star, theta, x, y):
        self.star, self.net, self.x, self.y = star, copy_of(theta), x, y
        self.canaries, self.labels = x[-CANARIES:], y[-CANARIES:]
        self.v, self.hv, self.total = (torch.zeros_like(self.net.p) for _ in range(3))

    def step(self, pick, move):
        t = Tangent(self.net, self.v, self.x[pick], self.y[pick])
        for d in t.d + t.rd:
            d.div_(len(pick))
        t.gradient((self.net.gw, self.net.gb))
        t.hvp(self.net.split(self.hv))
        if move:
            c = Tangent(self.net, self.v, self.canaries, self.labels)
            c.gradient(self.net.split(self.total))
            gx = at_star(self.star, self.canaries, self.labels).add_(c.pixels(len(self.x)))
            self.canaries.add_(gx, alpha=-RHO).clamp_(0, 1)
        self.v.add_(self.hv, alpha=-ETA).add_(self.total, alpha=ETA)
        self.net.p.add_(self.net.p.grad, alpha=-ETA)

    def run(self, steps, every):
        pick = iter(())
        for t in range(steps):
            if (now := next(pick, None)) is None:
                pick = iter(torch.randperm(len(self.x)).split(BATCH))
                now = next(pick)
            self.step(now, t % every == 0)


class AutogradRefinement(Refinement):
    """The same by torch.autograd's double backward."""

    def loss(self, p, x, y):
        h = F.linear(x, p[0], p[1]).relu()
        return F.cross_entropy(F.linear(h, p[2], p[3]), y, reduction="none"), h

    @torch.enable_grad()
    def step(self, pick, move):
        net = self.net
        p = [t.detach().requires_grad_() for pair in zip(net.w, net.b) for t in pair]
        v = [t for pair in zip(*net.split(self.v)) for t in pair]
        g = torch.autograd.grad(self.loss(p, self.x[pick], self.y[pick])[0].mean(), p, create_graph=True)
        hv = torch.autograd.grad(g, p, grad_outputs=v)
        if move:
            x = self.canaries.detach().requires_grad_()
            own = self.loss(p, x, self.labels)[0].sum()
            *total, gx = torch.autograd.grad(own, [*p, x], create_graph=True)
            (mixed,) = torch.autograd.grad(total, x, grad_outputs=v)
            star = [t for pair in zip(self.star.w, self.star.b) for t in pair]
            loss, h = self.loss(star, x, self.labels)
            u = F.normalize(h, dim=1)
            gram = u.t() @ u
            r = LAMBDA * ((gram * gram).sum() - (u * u).sum(1).square().sum())
            (gs,) = torch.autograd.grad(r - loss.sum(), x)
        with torch.no_grad():
            if move:
                self.canaries.sub_(RHO * (gx - mixed / len(self.x) + gs)).clamp_(0, 1)
                for s, t in zip([t for pair in zip(*net.split(self.total)) for t in pair], total):
                    s.copy_(t)
            sums = [t for pair in zip(*net.split(self.total)) for t in pair]
            torch._foreach_sub_(v, torch._foreach_sub(hv, sums), alpha=ETA)
            torch._foreach_sub_([t for pair in zip(net.w, net.b) for t in pair], g, alpha=ETA)


# Crafting.


@torch.no_grad()
def craft(x, y, stage=lambda name: None):
    """The canaries, their labels, and the digits that they displace. stage is told what was done."""

    chooser = Flat(SIZES)
    fit(chooser, x, y, EPOCHS, BATCH)
    stage("select-train")
    layers, own = influence(chooser, x, y)
    top = own.topk(PRESELECT)
    layers = [(u[top.indices], w[top.indices]) for u, w in layers]
    stage("influence")
    chosen = top.indices[greedy(layers, top.values, CANARIES)]
    stage("greedy")
    rest = torch.ones(len(x), dtype=torch.bool)
    rest[chosen] = False
    x = torch.cat([x[rest], x[chosen]])
    y = torch.cat([y[rest], y[chosen]])
    n = len(x) - CANARIES
    star = Flat(SIZES)
    theta = copy_of(star)
    fit(star, x[:n], y[:n], THETA_EPOCHS, BATCH)
    stage("theta-star")
    fit(theta, x, y, THETA_EPOCHS, BATCH)
    stage("theta-0")
    Refinement(star, theta, x, y).run(STEPS, EVERY)
    stage("refine")
    return x[n:], y[n:], chosen


def crafting():
    x, y = digits(args.data)
    return lambda: craft(x, y), "no autograd, data already in memory"


@torch.no_grad()
def refining(kind):
    """REFINE_STEPS steps on 8000 of the test digits, of which the last 1000 are the canaries."""
    x = idx(args.data, "t10k-images-idx3-ubyte")[:8000].reshape(-1, 784).float() / 255
    y = idx(args.data, "t10k-labels-idx1-ubyte")[:8000].long()
    star, theta = Flat(SIZES), Flat(SIZES)
    fit(star, x[:-CANARIES], y[:-CANARIES], 2, BATCH)
    fit(theta, x, y, 2, BATCH)
    run = torch.no_grad()(lambda: kind(star, theta, x.clone(), y).run(REFINE_STEPS, 1))
    return run, f"{REFINE_STEPS} steps, all of which move the canaries"


def write(path):
    import numpy as np

    x, y = digits(args.data)
    total = [0.0, 0.0]
    last = time.perf_counter(), time.process_time()

    def stage(name):
        nonlocal last
        now = time.perf_counter(), time.process_time()
        took = [b - a for a, b in zip(last, now)]
        total[:], last = [a + b for a, b in zip(total, took)], now
        say(name, *took)

    def say(name, wall, cpu):
        print(f"{name:14}{wall:8.2f} s {cpu:8.2f} s of CPU", flush=True)

    images, labels, removed = craft(x, y, stage)
    say("total", *total)
    np.savez(
        path,
        images=images.reshape(-1, 28, 28, 1).numpy(),
        labels=labels.numpy(),
        removed=removed.numpy(),
        set=np.zeros(CANARIES, np.int64),
    )


rows = {
    "craft/manual": crafting,
    "refine/manual": lambda: refining(Refinement),
    "refine/double-backward": lambda: refining(AutogradRefinement),
}

if args.out:
    write(args.out)
else:
    timing.main(args, {"torch": torch.__version__, "torch_mkl": torch.backends.mkl.is_available()}, rows)
