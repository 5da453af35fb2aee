"""Opacus' PRV accountant and scipy's beta quantiles, for the rows of accounting.

The mechanisms and counts are those of bench/accounting.go.
"""

import timing

args = timing.prepare(__doc__)

import warnings  # noqa: E402

warnings.filterwarnings("ignore")  # Opacus imports old names of torch

rows, versions = {}, {}


def epsilon(eps_error):
    from opacus.accountants import PRVAccountant

    def run():
        accountant = PRVAccountant()
        accountant.history = [(1.0, 0.01, 10_000)]
        return accountant.get_epsilon(1e-5, eps_error=eps_error)

    return run, ""


def calibration():
    from opacus.accountants.utils import get_noise_multiplier

    return (
        lambda: get_noise_multiplier(
            target_epsilon=10, target_delta=1e-5, sample_rate=0.04096, steps=2441, accountant="prv"
        ),
        "",
    )


def clopper_pearson():
    """500 lower and 500 upper bounds, in two calls for all."""
    n, side = 1_000_000, 0.0025
    x = np.tile(np.array([1, 10, 136, 10_000, 500_000]), 100)
    return lambda: (beta.ppf(side, x, n - x + 1), beta.ppf(1 - side, x + 1, n - x)), ""


try:
    import opacus

    versions["opacus"] = opacus.__version__
    rows["accounting/opacus-mesh"] = lambda: epsilon(0.01)
    # At 1e-3, not the 1e-4 that bounds the error of our answer: that mesh would
    # have ten times as many points, and this one takes 2.4 GB. So the ratio is at
    # Opacus' advantage.
    rows["accounting/opacus-fine"] = lambda: epsilon(0.001)
    rows["accounting/opacus-calibration"] = calibration
except ImportError:
    pass
try:
    import numpy as np
    import scipy
    from scipy.stats import beta

    versions["scipy"] = scipy.__version__
    rows["accounting/scipy-beta"] = clopper_pearson
except ImportError:
    pass
timing.main(args, versions, rows)
