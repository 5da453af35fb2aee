"""Makes the files in this folder. Made with numpy 2.4.6.

    python3 make.py

Every array holds 0, 1, 2, ... in C order, cast to its type, so that the test
knows each element from its index.
"""
import os

import numpy as np
from numpy.lib import format as npy

here = os.path.dirname(os.path.abspath(__file__))


def path(name):
    return os.path.join(here, name)


def count(shape, dtype):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


for dtype in ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
              "uint32", "uint64", "float16", "float32", "float64"]:
    np.save(path(f"c_{dtype}.npy"), count((2, 3), dtype))

a = count((2, 3, 4), "float32")
np.save(path("fortran_3d.npy"), np.asfortranarray(a))
np.save(path("fortran_2d.npy"), np.asfortranarray(count((3, 5), "uint8")))
np.save(path("scalar.npy"), np.float64(0))
np.save(path("vector.npy"), count((5,), "int64"))
np.save(path("empty.npy"), np.zeros((0, 3), "float32"))

for version in [(2, 0), (3, 0)]:
    with open(path(f"version{version[0]}.npy"), "wb") as f:
        npy.write_array(f, a, version=version)

np.savez(path("stored.npz"), x=a, y=count((2,), "int64"))
np.savez_compressed(path("deflated.npz"), x=np.asfortranarray(a), y=count((2,), "int64"))

# What is refused.
np.save(path("bad_big_endian.npy"), count((2, 3), ">f4"))
np.save(path("bad_text.npy"), np.array(["a", "bc"]))
np.save(path("bad_complex.npy"), count((2, 3), "complex64"))
np.save(path("bad_structured.npy"), np.zeros(2, [("a", "f4"), ("b", "i4")]))
np.save(path("bad_object.npy"), np.array([None, {}], dtype=object), allow_pickle=True)
