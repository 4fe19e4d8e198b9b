"""One cluster of two processes for all tests that do not harm it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("dask.array", reason="Dask is not installed: pip install 'labelprism[dask]'")
pytest.importorskip("distributed", reason="Dask's scheduler is not installed: pip install 'labelprism[dask]'")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as made:
        yield made


@pytest.fixture(scope="module")  # as long as it is open, dask takes it for whatever other tests compute
def client(cluster: Any) -> Iterator[Any]:
    from distributed import Client

    with Client(cluster) as made:
        yield made
