"""Exact nearest neighbours by faiss (IndexFlatL2), of the size of Private Evolution's routing."""

import timing

args = timing.prepare(__doc__)

import faiss  # noqa: E402
import numpy as np  # noqa: E402

RECORDS, BANK, DIM, VOTES = 128_000, 8_192, 384, 5


def unit_vectors(rng, n):
    x = rng.standard_normal((n, DIM), dtype=np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def by_faiss():
    rng = np.random.default_rng(1)
    queries, bank = unit_vectors(rng, RECORDS), unit_vectors(rng, BANK)
    index = faiss.IndexFlatL2(DIM)
    index.add(bank)
    index.search(queries[:256], VOTES)  # warm
    return lambda: index.search(queries, VOTES), ""


faiss.omp_set_num_threads(args.threads)
versions = {"faiss": faiss.__version__, "faiss_built_for": faiss.get_compile_options().strip()}
timing.main(args, versions, {"routing/faiss": by_faiss})
