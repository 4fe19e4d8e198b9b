"""The package as a whole: what importing it costs, and the demonstration."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import labelprism
from labelprism import PrismClassifier, _progress, demo
from labelprism._progress import ProgressBar
from labelprism.errors import DataFormatError


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_import_loads_no_heavy_package() -> None:
    code = "import sys, labelprism; print([m for m in ('numpy', 'scipy', 'sklearn', 'tqdm') if m in sys.modules])"
    assert run(code) == "[]"


def test_data_and_metrics_load_no_scikit_learn() -> None:
    code = "import sys, labelprism; labelprism.data, labelprism.metrics; print('sklearn' in sys.modules)"
    assert run(code) == "False"


def test_import_leaves_global_state_alone() -> None:
    code = (
        "import logging, os, warnings; before = (logging.root.handlers[:], dict(os.environ), warnings.filters[:]);"
        "import labelprism; labelprism.features; import logging;"
        "print(before[:2] == (logging.root.handlers, dict(os.environ)), logging.getLogger('labelprism').handlers)"
    )
    assert run(code) == "True []"


def test_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    assert labelprism.__version__ == version("labelprism")


def test_public_names() -> None:
    for name in labelprism.__all__:
        assert getattr(labelprism, name) is not None
    assert dir(labelprism) == sorted(labelprism.__all__)
    with pytest.raises(AttributeError, match="nothing_of_the_sort"):
        _ = labelprism.nothing_of_the_sort


def test_errors_say_where() -> None:
    error = DataFormatError("it is wrong", "a.txt", 3, "x" * 100)
    assert str(error) == f"a.txt, line 3: it is wrong (at {'x' * 57 + '...'!r})"
    assert str(DataFormatError("it is wrong")) == "it is wrong"
    assert str(DataFormatError("it is wrong", line=2)) == "line 2: it is wrong"
    assert isinstance(error, ValueError)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_bars_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with ProgressBar(4, "counting", delay=0) as bar:
            bar.advance(3)
        assert ("counting" in stream.getvalue()) is shown
    monkeypatch.setattr(sys, "stderr", None)
    with ProgressBar(4, "counting") as bar:
        bar.advance()


def test_demo(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """The numbers are those of the real data set: its best systems reach 93% and 81%."""
    with caplog.at_level(logging.INFO):
        demo.main()
    lines = capsys.readouterr().out.splitlines()
    rows = (line.rsplit(maxsplit=1) for line in lines if line.startswith("  ") and line[-1].isdigit())
    values = {name.strip(): float(value) for name, value in rows if value.replace(".", "").isdigit()}
    assert values["P@1"] > 92
    assert values["P@1"] > values["P@3"] > values["P@5"] > 79
    assert values["model size, MB"] < 100
    assert sum("suggested" in line for line in lines) == 3


def test_native_work_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the counter of a native computation moves a bar, up to its end."""
    tqdm = pytest.importorskip("tqdm")
    bars: list[Any] = []

    class Bar:
        def __init__(self, total: int, **_: Any) -> None:
            self.total, self.done = total, 0
            bars.append(self)

        def update(self, amount: int) -> None:
            assert amount >= 0
            self.done += amount

        def close(self) -> None:
            pass

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(_progress, "_LOOK_SECONDS", 1e-4)
    rng = np.random.default_rng(0)
    X, Y = rng.random((3000, 30)), np.eye(300)[rng.integers(0, 300, 3000)]
    PrismClassifier(random_state=0).fit(X, Y)
    assert len(bars) == 2  # trees, and classifiers
    assert all(0 < bar.done <= bar.total for bar in bars)
