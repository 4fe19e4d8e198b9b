"""The commands, inside this process, which is quicker."""

from __future__ import annotations

import json
import os
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labelprism.cli import main, tune
from labelprism.cli.settings import PARTS as KINDS
from labelprism.data import load
from labelprism.persistence import load_arrays


def output(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    assert main([str(argument) for argument in arguments]) == code
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    return json.loads(output(capsys, *arguments, "--json"))


# --------------------------------------------------------------------------------------------------------------- train


def test_train_holds_rows_out_and_tells_all(capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path) -> None:
    arguments = (
        "train",
        corpus / "train.tsv",
        "--out",
        tmp_path / "m",
        "--validation",
        "0.25",
        "--test",
    )
    shown = output(capsys, *arguments, corpus / "test.tsv", "-k", "2", "--n-bits", "9")
    assert "150 rows with" in shown
    assert "on held-out rows, percent:\n" in shown
    assert shown.count(" @2 ") == 2
    report = as_json(capsys, *arguments, corpus / "test.tsv", "--n-bits", "9", "--characters", "3-3")
    assert (report["rows"], report["labels"], report["features"]) == (150, 6, 2 * 512)
    assert report["test"]["P@1"] > 0.9
    assert report["validation"]["P@1"] > 0.9
    assert report["settings"]["features__characters"] == [3, 3]
    assert set(report["seconds"]) == {"read", "train", "save", "measure validation", "measure test"}


def test_the_same_data_give_the_same_model(corpus: Path, tmp_path: Path) -> None:
    for name, threads in (("a", "1"), ("b", "2")):
        arguments = [
            "train",
            corpus / "train.tsv",
            "--out",
            tmp_path / name,
            "-q",
            "--n-bits",
            "9",
            "--n-jobs",
            threads,
        ]
        assert main([str(argument) for argument in arguments]) == 0
    (_, a), (_, b) = load_arrays(tmp_path / "a"), load_arrays(tmp_path / "b")
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


def test_train_with_parts_and_a_file_of_settings(
    capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path
) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('[filter]\nkind = "tree"\nmax_depth = 2\n[head]\nkind = "logistic"\npasses = 2\n')
    report = as_json(capsys, "train", corpus / "X_trn.npz", "--out", tmp_path / "m", "--config", config, "--test",
                     corpus / "test.txt", "--set", "head__passes=5")  # fmt: skip
    assert report["settings"]["head__passes"] == 5
    assert report["settings"]["filter__max_depth"] == 2
    assert report["test"]["P@1"] > 0.8
    shown = output(capsys, "inspect", tmp_path / "m")
    assert "rows of numbers" in shown


PARTS = [(filter, "logistic") for filter in KINDS["filter"]] + [("tree", head) for head in KINDS["head"]]


@pytest.mark.parametrize(("filter", "head"), PARTS)
def test_every_part_can_be_trained_kept_and_used(corpus: Path, tmp_path: Path, filter: str, head: str) -> None:
    model = str(tmp_path / "model")
    settings = ["--filter", filter, "--head", head, *([] if head == "constant" else ["--set", "head__passes=1"])]
    settings += ["--filter-features", "0:200", "--head-features", "100:"]
    assert main(["train", str(corpus / "train.tsv"), "--out", model, "-q", "--n-bits", "8", *settings]) == 0
    assert main(["predict", model, str(corpus / "test.tsv"), "--output", str(tmp_path / "out")]) == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 40


def test_labels_that_training_did_not_have_count_as_missed(
    capsys: pytest.CaptureFixture[str], corpus: Path, text_model: str, tmp_path: Path
) -> None:
    data = tmp_path / "new.tsv"
    data.write_text("boat sail mast\tship,zeppelin\nwave tide\tsea\n")
    report = as_json(capsys, "evaluate", text_model, data)
    assert report["unknown_labels"] == 1
    assert report["metrics"]["P@1"]["value"] == 1.0
    assert report["metrics"]["recall@5"]["value"] == 0.75
    assert report["by_frequency"]["unseen"]["n_true"] == 1
    assert report["by_frequency"]["unseen"]["recall"] == 0.0


# ------------------------------------------------------------------------------------------------------------- predict


def test_formats_of_predict(capsys: pytest.CaptureFixture[str], text_model: str, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("boat sail mast harbour\n\nwave tide coast water\n")
    lines = [json.loads(line) for line in output(capsys, "predict", text_model, texts, "-k", "2").splitlines()]
    assert [line["row"] for line in lines] == [1, 2, 3]
    assert (lines[0]["labels"][0], lines[2]["labels"][0]) == ("ship", "sea")
    assert len(lines[0]["labels"]) == len(lines[0]["scores"]) == 2
    tsv = output(capsys, "predict", text_model, texts, "-k", "1", "--format", "tsv").splitlines()
    assert tsv[0] == "row\tlabel\tscore"
    assert tsv[1] == f"1\tship\t{lines[0]['scores'][0]!r}"
    table = output(capsys, "predict", text_model, texts, "-k", "1", "--format", "table")
    assert table.startswith("1  boat sail mast harbour\n")


def test_threshold_and_allowed_labels(capsys: pytest.CaptureFixture[str], text_model: str, tmp_path: Path) -> None:
    texts, allowed = tmp_path / "texts.txt", tmp_path / "allowed.txt"
    texts.write_text("boat sail mast harbour\n")
    allowed.write_text("sea\ndog\nno such label\n")
    (line,) = output(capsys, "predict", text_model, texts).splitlines()
    best, second = json.loads(line)["scores"][:2]
    (line,) = output(capsys, "predict", text_model, texts, "--threshold", (best + second) / 2).splitlines()
    assert json.loads(line)["labels"] == ["ship"]
    (line,) = output(capsys, "predict", text_model, texts, "--threshold", best + 1).splitlines()
    assert json.loads(line)["labels"] == []
    (line,) = output(capsys, "predict", text_model, texts, "--allow", allowed).splitlines()
    assert sorted(json.loads(line)["labels"]) == ["dog", "sea"]
    (line,) = output(capsys, "predict", text_model, texts, "-k", "1000000000").splitlines()
    assert len(json.loads(line)["labels"]) == 6
    allowed.write_text("nothing that is known\n")
    output(capsys, "predict", text_model, texts, "--allow", allowed, code=3)


def test_probabilities(capsys: pytest.CaptureFixture[str], corpus: Path, text_model: str, tmp_path: Path) -> None:
    scores, likely = (
        [json.loads(line) for line in output(capsys, "predict", text_model, corpus / "test.tsv", *more).splitlines()]
        for more in ([], ["--probabilities"])
    )
    assert [line["labels"] for line in likely] == [line["labels"] for line in scores]
    assert all(1 >= p >= q >= 0 for line in likely for p, q in pairwise(line["scores"]))
    # What is said to be likely is what comes true: here, labels that follow from the words.
    assert np.mean([line["scores"][0] for line in likely]) > 0.8
    assert np.mean([line["scores"][4] for line in likely]) < 0.2
    paper = tmp_path / "paper"
    output(capsys, "train", corpus / "train.tsv", "--out", paper, "--preset", "paper", "--n-bits", "8")
    lines = output(capsys, "predict", paper, corpus / "test.tsv", "--probabilities").splitlines()
    assert all(0 <= score <= 1 for line in lines for score in json.loads(line)["scores"])


def test_explanations_name_words(capsys: pytest.CaptureFixture[str], text_model: str, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("boat sail mast harbour\n")
    (line,) = output(capsys, "predict", text_model, texts, "-k", "1", "--explain").splitlines()
    (why,) = json.loads(line)["why"]["labels"]
    assert why["label"] == "ship"
    assert {"boat", "sail", "mast", "harbour"} & {name for name, _ in why["features"]}
    (line,) = output(capsys, "predict", text_model, texts, "--explain", "--threshold", "1e9").splitlines()
    assert json.loads(line) == {"row": 1, "labels": [], "scores": [], "why": {"labels": []}}
    output(capsys, "predict", text_model, texts, "--explain", "--format", "tsv", code=2)


def test_batches_do_not_matter(
    capsys: pytest.CaptureFixture[str], corpus: Path, text_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = output(capsys, "predict", text_model, corpus / "test.tsv")
    monkeypatch.setattr("labelprism.cli.predict._ROWS_PER_BATCH", 7)
    assert output(capsys, "predict", text_model, corpus / "test.tsv", "--n-jobs", "2") == whole


def test_numbering_must_be_said(
    capsys: pytest.CaptureFixture[str], corpus: Path, matrix_model: str, tmp_path: Path
) -> None:
    output(capsys, "convert", corpus / "X_tst.npz", tmp_path / "t.svm")
    output(capsys, "predict", matrix_model, tmp_path / "t.svm", code=3)
    found = output(capsys, "predict", matrix_model, tmp_path / "t.svm", "--no-zero-based")
    assert found == output(capsys, "predict", matrix_model, corpus / "test.txt")


def test_labels_without_names(capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path) -> None:
    """XC text has numbers for labels; a file of allowed ones has them as text."""
    model, allowed = tmp_path / "model", tmp_path / "allowed.txt"
    output(capsys, "train", corpus / "test.txt", "--out", model)
    allowed.write_text("2\n4\n")
    lines = output(capsys, "predict", model, corpus / "test.txt", "--allow", allowed).splitlines()
    assert {label for line in lines for label in json.loads(line)["labels"]} == {"2", "4"}
    assert as_json(capsys, "evaluate", model, corpus / "test.txt")["metrics"]["P@1"]["value"] > 0.9
    assert as_json(capsys, "evaluate", model, corpus / "X_tst.npz")["unknown_labels"] > 0  # these labels have names


def test_a_pipe_can_be_read_once(corpus: Path, text_model: str, matrix_model: str, tmp_path: Path) -> None:
    for model, name in ((text_model, "test.tsv"), (matrix_model, "test.txt")):
        pipe = tmp_path / f"pipe-{name}"
        os.mkfifo(pipe)
        writer = threading.Thread(target=lambda p=pipe, n=name: p.write_bytes((corpus / n).read_bytes()))
        writer.start()
        assert main(["predict", model, str(pipe), "--output", str(tmp_path / "out")]) == 0
        writer.join()
        assert len((tmp_path / "out").read_text().splitlines()) == 40
    assert main(["train", str(pipe), "--out", str(tmp_path / "m")]) == 2


# ------------------------------------------------------------------------------------------------ evaluate and compare


def test_evaluate_shows_groups_and_draws(
    capsys: pytest.CaptureFixture[str], corpus: Path, text_model: str, tmp_path: Path
) -> None:
    picture, test = tmp_path / "metrics.svg", corpus / "test.tsv"
    counts = np.sort(np.bincount(load(corpus / "train.tsv").Y.indices))
    limits = f"{counts[1]},{counts[3]}"
    shown = output(capsys, "evaluate", text_model, test, "--plot", picture, "--groups", limits, "-k", "2")
    assert "95% interval" in shown
    assert "PSP@2" in shown
    assert [line.split()[0] for line in shown.splitlines()[-3:]] == ["head", "torso", "tail"]
    assert picture.read_text().startswith("<?xml")
    output(capsys, "evaluate", text_model, corpus / "test.tsv", "--plot", tmp_path / "x.doc", code=2)


def test_compare_tells_the_better(
    capsys: pytest.CaptureFixture[str], corpus: Path, text_model: str, tmp_path: Path
) -> None:
    good, test = tmp_path / "good.jsonl", load(corpus / "test.tsv")
    output(capsys, "predict", text_model, corpus / "test.tsv", "--output", good)
    poor = tmp_path / "poor.npz"
    sp.save_npz(poor, sp.csr_array(np.tile(np.arange(6.0) + 1, (40, 1))))
    found = as_json(capsys, "compare", good, poor, corpus / "test.tsv", "--train", corpus / "train.tsv")
    assert found["rows"] == test.n_rows
    assert found["metrics"]["P@1"]["better"] == "A"
    assert found["metrics"]["PSP@1"]["low"] > 0
    tsv = tmp_path / "good.tsv"
    output(capsys, "predict", text_model, corpus / "test.tsv", "--output", tsv, "--format", "tsv")
    shown = output(capsys, "compare", good, tsv, corpus / "test.tsv")
    assert all(line.endswith("-") for line in shown.splitlines()[3:])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"row": 1, "labels": ["sea"]}\n', "suggestions for 1 rows, but the data has 40"),
        ('{"row": 2, "labels": ["sea"]}\n', "line 1: row 1 is expected"),
        ('{"row": 1, "labels": [1]}\n', "line 1: a line as"),
        ("[]\n", "line 1: a line as"),
        ("row\tlabel\tscore\n1\tsea\n", "line 2: row TAB label TAB score"),
        ("row\tlabel\tscore\n41\tsea\t1\n", "line 2: a row from 1 to 40"),
        ("row\tlabel\tscore\n2\tsea\t1\n1\tsea\t1\n", "line 3: a row from 2 to 40"),
        ("", "suggestions for 0 rows"),
    ],
)
def test_damaged_predictions(
    capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "p").write_text(content)
    assert main(["evaluate", "--predictions", str(tmp_path / "p"), str(corpus / "test.tsv")]) == 3
    assert message in capsys.readouterr().err


def test_predicted_labels_that_the_data_lacks_are_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "d.tsv").write_text("x\ta\ny\tb\n")
    (tmp_path / "p").write_text('{"row": 1, "labels": ["zzz", "a"]}\n{"row": 2, "labels": ["b"]}\n')
    found = as_json(capsys, "evaluate", "--predictions", tmp_path / "p", tmp_path / "d.tsv", "--resamples", "5")
    assert found["metrics"]["P@1"]["value"] == 0.5
    assert found["metrics"]["recall@3"]["value"] == 1.0


# ------------------------------------------------------------------------------------------------------------ the rest


def test_tune_writes_settings_that_train_takes(
    capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path
) -> None:
    best = tmp_path / "best.toml"
    found = as_json(
        capsys, "tune", corpus / "train.tsv", "--vary", "features__words=1-1,1-2", "--vary", "preset=fast",
        "--n-bits", "9", "--out-config", best, "--metric", "P@1", "--rows", "150",
    )  # fmt: skip
    tried = [trial["settings"] for trial in found["trials"]]
    assert len(tried) == 3
    assert {} in tried
    assert {"features__words": [1, 2], "preset": "fast"} in tried
    scores = [trial["metrics"]["P@1"] for trial in found["trials"]]
    assert scores == sorted(scores, reverse=True)
    assert "n_bits = 9" in best.read_text()
    assert output(capsys, "train", corpus / "train.tsv", "--out", tmp_path / "m", "--config", best)


def test_tune_is_bounded(capsys: pytest.CaptureFixture[str], corpus: Path) -> None:
    shown = output(capsys, "tune", corpus / "X_trn.npz", "--trials", "2", "--preset", "fast")
    assert len(shown.split("\n\n")[0].splitlines()) == 3
    found = as_json(capsys, "tune", corpus / "X_trn.npz", "--minutes", "0.00001")
    assert len(found["trials"]) == 1
    for wrong in (["--metric", "accuracy"], ["--vary", "presets=1"], ["--vary", "preset"], ["--minutes", "0"]):
        output(capsys, "tune", corpus / "X_trn.npz", *wrong, code=2)


def test_what_is_tried() -> None:
    tried = list(tune.choices({"a": (1, 2), "b": (3, 4)}, 0))
    assert tried[0] == {}
    assert sorted((choice["a"], choice["b"]) for choice in tried[1:]) == [(1, 3), (1, 4), (2, 3), (2, 4)]
    assert tried == list(tune.choices({"a": (1, 2), "b": (3, 4)}, 0))


def test_inspect(capsys: pytest.CaptureFixture[str], text_model: str) -> None:
    report = as_json(capsys, "inspect", text_model)
    assert (report["labels"], report["features"], report["input"]) == (6, 1024, "texts")
    assert report["training_rows"] == 200
    assert sum(report["most_frequent"].values()) > 100
    assert all(entry["bytes"] >= 0 for entry in report["arrays"].values())
    of_label = as_json(capsys, "inspect", text_model, "--label", "ship", "--top", "4")
    assert {entry["name"] for entry in of_label["classifier"]} == {"boat", "sail", "harbour", "mast"}
    assert "strongest features of its classifier:" in output(capsys, "inspect", text_model, "--label", "ship")
    assert main(["inspect", text_model, "--label", "shop"]) == 2
    assert "near it are 'ship'" in capsys.readouterr().err


def test_directories_of_data_are_like_files(
    capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path, text_model: str, matrix_model: str
) -> None:
    for name in ("train.tsv", "test.tsv", "test.txt", "X_tst.npz"):
        output(capsys, "convert", corpus / name, tmp_path / f"{name}.ds")
    output(capsys, "convert", tmp_path / "test.tsv.ds", tmp_path / "back.tsv")
    assert (tmp_path / "back.tsv").read_text() == (corpus / "test.tsv").read_text()
    for model, name in ((text_model, "test.tsv"), (matrix_model, "test.txt"), (matrix_model, "X_tst.npz")):
        for command in ("predict", "evaluate"):
            expected = output(capsys, command, model, corpus / name)
            assert output(capsys, command, model, tmp_path / f"{name}.ds") == expected
    flags = ("--n-bits", "8", "--n-jobs", "1", "--preset", "fast", "--out", tmp_path / "model", "--test")
    data = (corpus / "train.tsv", tmp_path / "train.tsv.ds")
    reports = [as_json(capsys, "train", path, *flags, tmp_path / "test.tsv.ds") for path in data]
    assert reports[0]["test"] == reports[1]["test"]
    output(capsys, "predict", text_model, tmp_path / "test.txt.ds", code=3)
    output(capsys, "predict", matrix_model, tmp_path / "test.tsv.ds", code=3)
    output(capsys, "train", corpus / "train.tsv", "--out", tmp_path / "test.tsv.ds", code=2)  # no model is there


def test_inspect_a_directory_of_data(capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path) -> None:
    target = tmp_path / "t.ds"
    output(capsys, "convert", corpus / "test.tsv", target)
    shown = output(capsys, "inspect", target, "--verify")
    assert "40 with texts" in shown
    assert "all files as written" in shown
    report = as_json(capsys, "inspect", target)
    assert (report["rows"], report["labels"], report["features"]) == (40, 6, None)
    assert report["labels_per_row"]["most"] == 3
    output(capsys, "inspect", target, "--label", "sea", code=2)
    output(capsys, "convert", corpus / "test.tsv", target, "--features", "--n-bits", "8")
    assert as_json(capsys, "inspect", target)["features"] == 256
    output(capsys, "convert", corpus / "test.tsv", tmp_path / "t.ds.gz", code=2)
    (target / "texts_text.npy").write_bytes(b"cut")
    output(capsys, "inspect", target, code=3)
    (tmp_path / "folder.ds").mkdir()
    output(capsys, "convert", corpus / "test.tsv", tmp_path / "folder.ds", code=5)


def test_convert(capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path) -> None:
    output(capsys, "convert", corpus / "test.tsv", tmp_path / "t.jsonl.gz")
    output(capsys, "convert", tmp_path / "t.jsonl.gz", tmp_path / "t.tsv")
    assert (tmp_path / "t.tsv").read_text() == (corpus / "test.tsv").read_text()
    output(capsys, "convert", tmp_path / "t.tsv", tmp_path / "X.npz", "--features", "--n-bits", "8")
    assert load(tmp_path / "X.npz").X.shape == (40, 256)  # type: ignore[union-attr]
    for source, target in (("t.tsv", "t.svm"), ("X.npz", "t2.tsv"), ("t.tsv", "t.doc")):
        output(capsys, "convert", tmp_path / source, tmp_path / target, code=2)
        assert not (tmp_path / target).exists()
    output(capsys, "convert", tmp_path / "X.npz", tmp_path / "Y.npz", "--features", code=2)
