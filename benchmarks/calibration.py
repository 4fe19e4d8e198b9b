"""How well probabilities are calibrated: the expected calibration error (ECE) on test rows.

    python benchmarks/calibration.py FOLDER ...

A FOLDER holds X_trn.npz, Y_trn.npz, X_tst.npz and Y_tst.npz. Test rows are used for nothing but this.
"""

from __future__ import annotations

import sys

import numpy as np
import scipy.sparse as sp

from labelprism import PrismClassifier
from labelprism.metrics import expected_calibration_error


def main() -> None:
    print("| data | ECE of the first label | mean probability, share that is true | ECE of the first five | of all |")
    print("|---|---|---|---|---|")
    for folder in sys.argv[1:]:
        X, Y, X_test, Y_test = (
            sp.csr_array(sp.load_npz(f"{folder}/{name}.npz")) for name in ("X_trn", "Y_trn", "X_tst", "Y_tst")
        )
        labels, likely = PrismClassifier(n_jobs=-1, random_state=0).fit(X, Y).predict_topk_proba(X_test, 50)
        rows, places = np.nonzero(labels >= 0)
        is_true = np.zeros(labels.shape, bool)
        is_true[rows, places] = np.asarray(Y_test[rows, labels[rows, places]]) > 0
        errors = [expected_calibration_error(is_true[:, :k], likely[:, :k]) for k in (1, 5, 50)]
        first = f"{likely[:, 0].mean():.3f}, {is_true[:, 0].mean():.3f}"
        name = folder.rstrip("/").split("/")[-1]
        print(f"| {name} | {errors[0]:.3f} | {first} | {errors[1]:.3f} | {errors[2]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
