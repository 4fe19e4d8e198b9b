"""How many threads the native core may use."""

from __future__ import annotations


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` stands for, by the rules of scikit-learn.

    Parameters
    ----------
    n_jobs : int or None
        None is 1 unless a `joblib.parallel_config` context says otherwise; -1 is all cores, -2 all but one.
    """
    from joblib import effective_n_jobs

    try:
        return int(effective_n_jobs(n_jobs))
    except (TypeError, ValueError) as error:
        raise ValueError(f"n_jobs must be None, a positive number, or -1 for all cores; got {n_jobs!r}") from error
