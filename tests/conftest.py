"""What all tests share: the size of the long ones, the hypothesis profiles, the instruction sets of the core."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("short", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run fuzz, fork and scale tests with their full counts")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if config.getoption("--long") else "short")


@pytest.fixture(scope="session")
def long_run(request: pytest.FixtureRequest) -> bool:
    """Whether this is `make test-long`."""
    return bool(request.config.getoption("--long"))


@pytest.fixture
def instruction_sets() -> Iterator[list[str]]:
    """Those that this processor can run, for a test to choose one after the other; the best is chosen afterwards."""
    from labelprism import _core

    best = _core.instruction_set()
    yield _core.instruction_sets()
    _core.use_instruction_set(best)
