"""GEMM by numpy (OpenBLAS) and by torch, float32, at 1024^3 and the MLP's shapes."""

import timing

args = timing.prepare(__doc__)

import numpy as np  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

# Layout (A, B: N as is, T transposed) and M, K, N. The first group is the cube,
# then 784-512-512-10 at B = 256: forward, dW, dX.
SHAPES = [
    ("nt", 1024, 1024, 1024),
    ("tn", 1024, 1024, 1024),
    ("nn", 1024, 1024, 1024),
    ("nn", 256, 784, 512),
    ("nn", 256, 512, 512),
    ("tn", 784, 256, 512),
    ("tn", 512, 256, 512),
    ("nt", 256, 512, 784),
    ("nt", 256, 512, 512),
    ("nn", 256, 784, 256),
    ("tn", 784, 256, 256),
    ("nn", 256, 512, 10),
    ("tn", 512, 256, 10),
    ("nt", 256, 10, 512),
    ("nn", 256, 256, 10),
    ("tn", 256, 256, 10),
    ("nt", 256, 10, 256),
]


def operands(layout, m, k, n):
    """a and b as stored for layout, random, and their logical views m x k and k x n."""
    rng = np.random.default_rng(1)
    a = rng.standard_normal((m, k) if layout[0] == "n" else (k, m), dtype=np.float32)
    b = rng.standard_normal((k, n) if layout[1] == "n" else (n, k), dtype=np.float32)
    return (a if layout[0] == "n" else a.T), (b if layout[1] == "n" else b.T), np.empty((m, n), np.float32)


def by_numpy(layout, m, k, n):
    a, b, out = operands(layout, m, k, n)
    return lambda: np.matmul(a, b, out=out), ""


def by_torch(layout, m, k, n):
    a, b, out = (torch.from_numpy(x) for x in operands(layout, m, k, n))
    return lambda: torch.mm(a, b, out=out), ""


def openblas():
    """The kernel that OpenBLAS chose, where threadpoolctl is there to ask."""
    try:
        import threadpoolctl
    except ImportError:
        return "OpenBLAS"
    return "; ".join(f"{x['internal_api']} {x['version']} {x.get('architecture', '')}" for x in threadpoolctl.threadpool_info())


rows = {}
for s in SHAPES:
    name = "gemm/%s-%dx%dx%d/" % s
    rows[name + "numpy"] = lambda s=s: by_numpy(*s)
    if torch:
        rows[name + "torch"] = lambda s=s: by_torch(*s)

versions = {"numpy": np.__version__, "openblas": openblas()}
if torch:
    torch.set_num_threads(args.threads)
    versions["torch"] = torch.__version__
    versions["torch_cpu"] = torch.backends.cpu.get_cpu_capability()
    versions["torch_mkl"] = torch.backends.mkl.is_available()
timing.main(args, versions, rows)
