"""The MLP by torch: steps, DP-SGD, gradient + HVP, and the training of one audit.

Each job is written in the ways that torch offers, so that the faster of them is
the peer: rows are step/…/autograd, step/…/manual (backward by hand into one
flat gradient, fused SGD on it), step/…/compile, and so on.
"""

import timing

args = timing.prepare(__doc__)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from mlp import Flat, digits, sgd  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(1)

BATCH = 256
SIZES = (784, 512, 512, 10)
CLIP, SIGMA = 1.0, 1.0


def clipped_gradient(net, x, y):
    """Book-keeping: one backward pass; |dW|² of an example is |dy|² (|x|² + 1)."""
    h = net.forward(x)
    d = net.deltas(h, y)
    sq = 0
    for x_, dy in zip(h, d):
        sq = sq + torch.linalg.vector_norm(dy, dim=1) ** 2 * (torch.linalg.vector_norm(x_, dim=1) ** 2 + 1)
    c = (CLIP / (sq.sqrt() + 1e-30)).clamp_(max=1).div_(len(y)).unsqueeze(1)
    for dy in d:
        dy.mul_(c)
    net.accumulate(h, d)


def batch():
    return torch.rand(BATCH, SIZES[0]), torch.randint(SIZES[-1], (BATCH,))


def linear_net(sizes=SIZES):
    layers = [m for i, o in zip(sizes, sizes[1:]) for m in (torch.nn.Linear(i, o), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers[:-1])


# Plain step.


def step_autograd(compiled=False):
    (x, y), net = batch(), linear_net()
    opt = sgd(net.parameters())
    loss = lambda x, y: F.cross_entropy(net(x), y)
    if compiled:
        loss = torch.compile(loss)

    def run():
        opt.zero_grad(set_to_none=True)
        loss(x, y).backward()
        opt.step()

    return run, "nn.Linear, autograd, fused SGD" + (", torch.compile" if compiled else "")


def flat_step(gradient, noise=0.0):
    (x, y), net = batch(), Flat(SIZES)
    opt = sgd([net.p])
    z = torch.empty_like(net.p)

    @torch.no_grad()
    def run():
        gradient(net, x, y)
        if noise:
            net.p.grad.add_(z.normal_(), alpha=noise * CLIP / BATCH)
        opt.step()

    return run, "no autograd, flat parameters, fused SGD"


# DP-SGD by two backward passes: norms from the taps of the first, then a
# weighted loss.


def dp_two_backward(noise=0.0):
    (x, y), net = batch(), linear_net()
    opt = sgd(net.parameters())
    linears = [m for m in net if isinstance(m, torch.nn.Linear)]
    taps = []
    for m in linears:
        m.register_forward_hook(lambda m, i, o: taps.append((i[0], o)))
    params = list(net.parameters())

    def run():
        taps.clear()
        loss = F.cross_entropy(net(x), y, reduction="none")
        ds = torch.autograd.grad(loss.sum(), [o for _, o in taps], retain_graph=True)
        with torch.no_grad():
            sq = sum(d.square().sum(1) * (i.square().sum(1) + 1) for (i, _), d in zip(taps, ds))
            c = (CLIP / (sq.sqrt() + 1e-30)).clamp_(max=1) / BATCH
        for p, g in zip(params, torch.autograd.grad((loss * c).sum(), params)):
            p.grad = g.add_(torch.randn_like(g), alpha=noise * CLIP / BATCH) if noise else g
        opt.step()

    return run, "autograd, ghost clipping by two backward passes"


# Gradient, and gradient with HVP.


def functional():
    net = linear_net()
    params = [p.detach().clone().requires_grad_() for p in net.parameters()]
    v = [torch.randn_like(p) for p in params]
    x, y = batch()

    def loss(params):
        h = x
        for i in range(0, len(params) - 2, 2):
            h = F.linear(h, params[i], params[i + 1]).relu()
        return F.cross_entropy(F.linear(h, params[-2], params[-1]), y)

    return params, v, loss


def gradient_autograd():
    params, _, loss = functional()
    return lambda: torch.autograd.grad(loss(params), params), "autograd"


def gradient_manual():
    (x, y), net = batch(), Flat(SIZES)

    @torch.no_grad()
    def run():
        net.gradient(x, y)

    return run, "no autograd"


def hvp_double_backward():
    params, v, loss = functional()

    def run():
        g = torch.autograd.grad(loss(params), params, create_graph=True)
        return torch.autograd.grad(g, params, grad_outputs=v)

    return run, "double backward"


def hvp_forward_over_reverse():
    params, v, loss = functional()
    params = tuple(p.detach() for p in params)
    grad = torch.func.grad(lambda *p: loss(p), argnums=tuple(range(len(params))))
    return lambda: torch.func.jvp(grad, params, tuple(v)), "torch.func.jvp of grad"


# One audit's training: 784-256-10, 7 epochs of 60,000 digits, EMA at each step.


def fit(manual, epochs=7):
    x, y = digits(args.data)

    def run():
        if manual:
            net = Flat((784, 256, 10))
            params = [net.p]
        else:
            net = linear_net((784, 256, 10))
            params = list(net.parameters())
        opt = sgd(params)
        ema = [p.detach().clone() for p in params]
        for _ in range(epochs):
            order = torch.randperm(len(x))
            for i in range(0, len(x), BATCH):
                pick = order[i : i + BATCH]
                if manual:
                    net.gradient(x[pick], y[pick])
                else:
                    opt.zero_grad(set_to_none=True)
                    F.cross_entropy(net(x[pick]), y[pick]).backward()
                opt.step()
                with torch.no_grad():
                    torch._foreach_lerp_(ema, params, 0.1)

    return (torch.no_grad()(run) if manual else run), "training alone, data already in memory"


rows = {
    "step/plain/autograd": step_autograd,
    "step/plain/compile": lambda: step_autograd(compiled=True),
    "step/plain/manual": lambda: flat_step(Flat.gradient),
    "step/dp/two-backward": dp_two_backward,
    "step/dp/manual": lambda: flat_step(clipped_gradient),
    "step/dp-noise/two-backward": lambda: dp_two_backward(SIGMA),
    "step/dp-noise/manual": lambda: flat_step(clipped_gradient, SIGMA),
    "gradient/autograd": gradient_autograd,
    "gradient/manual": gradient_manual,
    "hvp/double-backward": hvp_double_backward,
    "hvp/forward-over-reverse": hvp_forward_over_reverse,
    "train/autograd": lambda: fit(manual=False),
    "train/manual": lambda: fit(manual=True),
}

versions = {
    "torch": torch.__version__,
    "torch_cpu": torch.backends.cpu.get_cpu_capability(),
    "torch_mkl": torch.backends.mkl.is_available(),
    "torch_threads": torch.get_num_threads(),
}
timing.main(args, versions, rows)
