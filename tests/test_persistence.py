"""Saved models: the same to the bit, replaced in one step, and refused with a clear word when something is wrong."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from labelprism import PrismClassifier, _array_directory
from labelprism.errors import ModelFormatError
from labelprism.filters import AllLabels, MostFrequent, SpectralTree
from labelprism.heads import ConstantHead, LogisticHead, LowRankHead

sys.path.insert(0, str(Path(__file__).parent / "filters"))
from planted_trees import planted

TREE = SpectralTree(6, max_depth=3, verbose=False)
MODELS = {
    "default": PrismClassifier(random_state=0),
    "fast": PrismClassifier(preset="fast", objective="propensity", random_state=0),
    "tree-logistic": PrismClassifier(TREE, LogisticHead(passes=2), random_state=0),
    "tree-low-rank": PrismClassifier(TREE, LowRankHead(4, passes=2), random_state=0),
    "all-logistic": PrismClassifier(AllLabels(), LogisticHead(passes=2), random_state=0),
    "frequent-constant": PrismClassifier(MostFrequent(9), ConstantHead(), random_state=0),
}
X, Y = planted(n=400)
X_TEST = planted(n=60, seed=1)[0]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with every model, saved under its name."""
    root = tmp_path_factory.mktemp("models")
    for name, model in MODELS.items():
        model.fit(X, Y).save(root / name)
    yield root
    MODELS.update({name: clone(model) for name, model in MODELS.items()})  # native parts must not outlive the tests


@pytest.fixture(params=["default", "tree-logistic"])
def damaged(request: pytest.FixtureRequest, saved: Path, tmp_path: Path) -> Path:
    """A copy of a model, to be damaged."""
    return Path(shutil.copytree(saved / request.param, tmp_path / "model"))


def some_array(model: Path) -> Path:
    return max(model.glob("*.npy"), key=lambda file: file.stat().st_size)


def change_meta(model: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    meta = json.loads((model / "meta.json").read_text())
    change(meta)
    (model / "meta.json").write_text(json.dumps(meta))


def assert_refused(model: Path, file: str, words: str = ".", verify: bool | None = None) -> None:
    with pytest.raises(ModelFormatError, match=words) as caught:
        PrismClassifier.load(model, verify)
    assert caught.value.path.endswith(file)
    assert file in str(caught.value)


def assert_same(model: PrismClassifier, other: PrismClassifier) -> None:
    for one, two in zip(model.predict_topk(X_TEST, 7), other.predict_topk(X_TEST, 7), strict=True):
        np.testing.assert_array_equal(one, two)


# ------------------------------------------------------------------------------------------------------ what must work


@pytest.mark.parametrize("n_jobs", [None, 2, -1, np.int64(3)])
def test_threads_are_kept(saved: Path, tmp_path: Path, n_jobs: Any) -> None:
    PrismClassifier.load(saved / "default").set_params(n_jobs=n_jobs).save(tmp_path / "model")
    assert PrismClassifier.load(tmp_path / "model").n_jobs == n_jobs


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("verify", [None, True, False])
def test_loaded_models_predict_the_same_to_the_bit(saved: Path, name: str, verify: bool | None) -> None:
    assert_same(MODELS[name], PrismClassifier.load(saved / name, verify))


@pytest.mark.parametrize("name", ["default", "tree-low-rank"])
def test_a_loaded_model_is_saved_as_the_same_files(saved: Path, tmp_path: Path, name: str) -> None:
    PrismClassifier.load(saved / name).save(tmp_path / "again")
    for file in (saved / name).glob("*.npy"):
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_a_model_is_replaced_and_nothing_is_left_over(saved: Path, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "model"
    for name in ("tree-logistic", "default", "frequent-constant"):
        MODELS[name].save(target)
        assert_same(MODELS[name], PrismClassifier.load(target))
        assert [file.name for file in target.parent.iterdir()] == ["model"]


def test_unknown_files_are_ignored(saved: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(saved / "default", tmp_path / "model"))
    (model / "README.txt").write_text("where it comes from")
    (model / "unknown.npy").write_bytes(b"no array")
    (model / "folder").mkdir()
    (model / "pipe").symlink_to("/dev/zero")
    assert_same(MODELS["default"], PrismClassifier.load(model))


def test_a_mapped_model_outlives_its_replacement(tmp_path: Path, saved: Path) -> None:
    target = Path(shutil.copytree(saved / "default", tmp_path / "model"))
    loaded = PrismClassifier.load(target)
    MODELS["fast"].save(target)
    assert_same(MODELS["default"], loaded)


def test_what_a_link_points_to_is_replaced(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved / "fast", tmp_path / "model")
    (tmp_path / "current").symlink_to("model")
    MODELS["default"].save(tmp_path / "current")
    assert (tmp_path / "current").is_symlink()
    assert_same(MODELS["default"], PrismClassifier.load(tmp_path / "model"))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["current", "model"]


def test_models_are_replaced_without_an_exchange_too(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_array_directory, "_exchanged", lambda fresh, target: False)
    target = Path(shutil.copytree(saved / "fast", tmp_path / "model"))
    MODELS["default"].save(target)
    assert_same(MODELS["default"], PrismClassifier.load(target))
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_a_model_that_was_moved_aside_is_found_and_comes_back(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where two directories cannot be exchanged, a process may be killed between the two renames."""
    shutil.copytree(saved / "default", tmp_path / ".model.0123.old")
    assert_same(MODELS["default"], PrismClassifier.load(tmp_path / "model"))
    monkeypatch.setattr(np, "save", lambda *_, **__: os.write(-1, b""))
    with pytest.raises(OSError, match="Bad file descriptor"):
        MODELS["fast"].save(tmp_path / "model")
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert_same(MODELS["default"], PrismClassifier.load(tmp_path / "model"))


def test_what_dead_processes_left_is_swept_away(saved: Path, tmp_path: Path) -> None:
    (tmp_path / ".model.dead.new").mkdir()
    (tmp_path / ".model.alive.new").mkdir()
    (tmp_path / ".other.dead.new").mkdir()
    lock = _array_directory.locked(tmp_path / ".model.alive.new")
    MODELS["fast"].save(tmp_path / "model")
    os.close(lock)
    assert sorted(file.name for file in tmp_path.iterdir()) == [".model.alive.new", ".other.dead.new", "model"]


# ------------------------------------------------------------------------------------------------------ saving fails


@pytest.mark.parametrize("content", ["folder", "empty", "file"])
def test_what_is_no_model_is_not_replaced(saved: Path, tmp_path: Path, content: str) -> None:
    target = tmp_path / "precious"
    if content == "file":
        target.write_text("keep me")
    else:
        target.mkdir()
    if content == "folder":
        (target / "thesis.txt").write_text("keep me")
    with pytest.raises(FileExistsError, match="precious is there and is no model"):
        MODELS["default"].save(target)
    assert target.is_dir() == (content != "file")
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("call", ["save", "fsync", "rename"])
@pytest.mark.parametrize("after", [0, 3])
def test_an_error_while_saving_leaves_the_old_model(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, after: int
) -> None:
    target = Path(shutil.copytree(saved / "fast", tmp_path / "model"))
    owner, name = {"save": (np, "save"), "fsync": (os, "fsync"), "rename": (_array_directory, "_take_place")}[call]
    real, calls = getattr(owner, name), [0]

    def failing(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if call == "rename" or calls[0] > after:
            raise OSError(28, "No space left on device")
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, failing)
    with pytest.raises(OSError, match="No space left"):
        MODELS["default"].save(target)
    monkeypatch.undo()
    assert_same(MODELS["fast"], PrismClassifier.load(target))
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_the_old_model_comes_back_when_the_new_one_cannot_take_its_place(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Path(shutil.copytree(saved / "fast", tmp_path / "model"))
    real = Path.rename

    def failing(self: Path, other: Path) -> Path:
        if self.suffix == ".new":
            raise OSError(5, "Input/output error")
        return real(self, other)

    monkeypatch.setattr(_array_directory, "_exchanged", lambda fresh, target: False)
    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="Input/output"):
        MODELS["default"].save(target)
    monkeypatch.undo()
    assert_same(MODELS["fast"], PrismClassifier.load(target))
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


# ------------------------------------------------------------------------------------------------------ damaged files


@pytest.mark.parametrize("size", [0, 5, 100, -1])
def test_a_file_that_was_cut_off(damaged: Path, size: int) -> None:
    file = some_array(damaged)
    file.write_bytes(file.read_bytes()[:size])
    assert_refused(damaged, file.name)


def test_a_missing_file_and_a_missing_model(damaged: Path) -> None:
    some = some_array(damaged)
    some.unlink()
    assert_refused(damaged, some.name, "missing")
    (damaged / "meta.json").unlink()
    assert_refused(damaged, "meta.json", "no model here")
    assert_refused(damaged / "nowhere", "meta.json", "no model here")


def test_a_flipped_byte(damaged: Path) -> None:
    file = some_array(damaged)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert_refused(damaged, file.name, "SHA-256", verify=True)
    assert_refused(damaged, file.name, "SHA-256")  # small models are always compared


@pytest.mark.parametrize("name", ["meta.json", "array"])
def test_links_are_not_followed(damaged: Path, name: str) -> None:
    file = damaged / name if name == "meta.json" else some_array(damaged)
    file.rename(damaged.parent / "elsewhere")
    file.symlink_to(damaged.parent / "elsewhere")
    assert_refused(damaged, file.name)


@pytest.mark.parametrize("kind", ["dtype", "shape", "object", "text"])
def test_a_file_with_another_array(damaged: Path, kind: str) -> None:
    file = some_array(damaged)
    array = np.load(file)
    if kind == "dtype":
        np.save(file, array.view(f"u{array.itemsize}" if array.dtype.kind != "u" else f"i{array.itemsize}"))
    elif kind == "shape":
        np.save(file, array.reshape(1, -1))
    elif kind == "object":
        content = file.read_bytes()
        file.write_bytes(content.replace(array.dtype.str.encode(), b"|O", 1) + b" ")
    else:
        file.write_bytes(b"no array".ljust(file.stat().st_size))
    assert_refused(damaged, file.name, verify=False)


# ------------------------------------------------------------------------------------------------------ damaged meta


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"format": 1}',
        b'{"format": 1, "model": [], "arrays": {}}',
        b"[" * 99999,
    ],
    ids=["empty", "open", "list", "null", "bytes", "bare", "types", "deep"],
)
def test_a_description_that_is_none(damaged: Path, content: bytes) -> None:
    (damaged / "meta.json").write_bytes(content)
    assert_refused(damaged, "meta.json", "description of a model")


def test_a_huge_description_is_not_read(damaged: Path) -> None:
    with (damaged / "meta.json").open("r+b") as file:
        file.truncate((1 << 24) + 1)
    assert_refused(damaged, "meta.json", "larger than")


@pytest.mark.parametrize("version", [0, 2, 99, "1", None])
def test_another_format(damaged: Path, version: Any) -> None:
    change_meta(damaged, lambda meta: meta.update(format=version))
    assert_refused(damaged, "meta.json", "format .*update labelprism")


@pytest.mark.parametrize(
    "shape", [[10**18], [10**400], [-1], [-4, -4], ["3"], [2.5], [True], "12", None, 3, [[1]], [1] * 40, {"0": 1}]
)
def test_absurd_shapes(damaged: Path, shape: Any) -> None:
    name = some_array(damaged).stem
    change_meta(damaged, lambda meta: meta["arrays"][name].update(shape=shape))
    with pytest.raises(ModelFormatError, match=name):
        PrismClassifier.load(damaged)


@pytest.mark.parametrize("change", [{"dtype": "|O"}, {"dtype": "<M8[s]"}, {"dtype": 3}, {"dtype": []}, {"sha256": 5}])
def test_absurd_entries(damaged: Path, change: dict[str, Any]) -> None:
    name = some_array(damaged).stem
    change_meta(damaged, lambda meta: meta["arrays"][name].update(change))
    assert_refused(damaged, "meta.json", name)
    change_meta(damaged, lambda meta: meta["arrays"].update({name: 7}))
    assert_refused(damaged, "meta.json", name)


@pytest.mark.parametrize("name", ["../meta", "/etc/passwd", "", "A", "a.b", "x" * 99])
def test_names_cannot_lead_elsewhere(damaged: Path, name: str) -> None:
    change_meta(damaged, lambda meta: meta["arrays"].update({name: {"dtype": "<f4", "shape": [1], "sha256": ""}}))
    assert_refused(damaged, "meta.json", "has the name")


@pytest.mark.parametrize("value", [-1, 0, 2**31, 10**30, 1.5, "60", None, float("nan"), float("inf"), [], {}])
@pytest.mark.parametrize("key", ["n_features", "n_labels", "n_trees"])
def test_absurd_sizes_of_a_recipe(saved: Path, tmp_path: Path, key: str, value: Any) -> None:
    model = Path(shutil.copytree(saved / "default", tmp_path / "model"))
    change_meta(model, lambda meta: meta["model"]["recipe"].update({key: value}))
    assert_refused(model, "model", "damaged")


@pytest.mark.parametrize("value", [0, 10**6, -(10**6), 1.5, "2", True, []])
def test_absurd_numbers_of_threads(saved: Path, tmp_path: Path, value: Any) -> None:
    model = Path(shutil.copytree(saved / "default", tmp_path / "model"))
    change_meta(model, lambda meta: meta["model"]["parameters"].update(n_jobs=value))
    assert_refused(model, "model", "n_jobs")


@pytest.mark.parametrize("key", ["settings", "blend", "smallest", "n_labels"])
def test_missing_parts_of_a_recipe(saved: Path, tmp_path: Path, key: str) -> None:
    model = Path(shutil.copytree(saved / "default", tmp_path / "model"))
    change_meta(model, lambda meta: meta["model"]["recipe"].pop(key))
    assert_refused(model, "model", "damaged")


@pytest.mark.parametrize("key", ["fit", "__class__", "predict", "route"])
def test_a_file_sets_nothing_but_what_is_learned(saved: Path, tmp_path: Path, key: str) -> None:
    model = Path(shutil.copytree(saved / "tree-logistic", tmp_path / "model"))
    change_meta(model, lambda meta: meta["model"]["filter"]["values"].update({key: 1}))
    assert_refused(model, "model", "nothing that is learned")


def test_a_file_makes_nothing_but_filters_and_heads(saved: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(saved / "tree-logistic", tmp_path / "model"))
    change_meta(model, lambda meta: meta["model"]["filter"].update(kind="Popen"))
    assert_refused(model, "model", "damaged")
