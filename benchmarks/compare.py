"""labelprism beside other systems: accuracy, time, memory, size of the model.

    python benchmarks/compare.py run RESULTS [FOLDER ...] [--command COMMAND] [--systems small|all|NAME:PRESET,...]
    python benchmarks/compare.py report RESULTS PAGE PICTURE

`run` appends one JSON line for each system and data set to RESULTS, one system at a time. FOLDER holds X_trn.npz,
Y_trn.npz, X_tst.npz and Y_tst.npz; without one the embedded Tate collection is used. COMMAND runs one system and
prints its line last, with `{system}`, `{preset}`, `{data}` and `{threads}` in it replaced, so that other libraries can
live in environments of their own; without it only labelprism runs, through `compare.py one`. A name that ends in + is
run on rows of unit norm (`{flags}` becomes --l2norm). `report` writes a page with all tables, and a picture.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from timing import machine

from labelprism import PrismClassifier, metrics

SMALL = (
    "labelprism:default,labelprism:accurate,labelprism:tail,labelprism:fast,omikuji:parabel,omikuji:bonsai,libpecos+:default,napkinxc:plt,"
    "vowpalwabbit:plt"
)
ALL = (
    SMALL + ",labelprism:paper,omikuji:attentionxml,libpecos+:ova,libpecos+:bag3,napkinxc:plt-ens3,"
    "libmultilabel+:tree,libmultilabel+:1vsrest"
)
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "tail": {"objective": "propensity"},
    "accurate": {"preset": "accurate"},
    "accurate-tail": {"preset": "accurate", "objective": "propensity"},
    "fast": {"preset": "fast"},
    "paper": {"preset": "paper"},
}
SINGLE_ROWS = 1000
METRICS = {"P@1": "p_at_1", "P@3": "p_at_3", "P@5": "p_at_5", "nDCG@5": "ndcg5", "PSP@5": "psp5"}
COLUMNS = {
    **METRICS,
    "train s": "train_s",
    "(CPU)": "train_cpu_s",
    "predict s": "predict_s",
    "one row ms": "single_ms_p50",
    "model MB": "model_bytes",
    "peak MB": "peak_rss_mb",
    "others busy": "other_busy_cores",
}


# ---------------------------------------------------------------------------------------------------------------- run


def run(results: Path, folders: list[str], command: str | None, systems: str, threads: int, timeout: float) -> None:
    chosen = {"small": SMALL, "all": ALL}.get(systems, systems).split(",")
    with tempfile.TemporaryDirectory() as scratch:
        for folder in folders or [tate_folder(Path(scratch) / "tate-subjects")]:
            for name, _, preset in (system.partition(":") for system in chosen):
                if command is None and not name.startswith("labelprism"):
                    continue
                line = run_one(command, name.rstrip("+"), preset, folder, threads, timeout, name.endswith("+"))
                with results.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
                print(line[:300], file=sys.stderr, flush=True)


def run_one(
    command: str | None, system: str, preset: str, folder: str, threads: int, timeout: float, unit: bool
) -> str:
    if command is None:
        words = [sys.executable, __file__, "one", preset, folder, "--threads", str(threads)]
    else:
        flags = "--l2norm" if unit else ""
        words = shlex.split(
            command.format(system=system, preset=preset, data=folder, threads=threads, flags=flags, timeout=timeout)
        )
    problem = {"peer": system, "preset": preset, "dataset": Path(folder).name}
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout + 60, check=False)
    except subprocess.TimeoutExpired:
        return json.dumps({**problem, "error": f"over {timeout:g} s"})
    lines = done.stdout.strip().splitlines()
    return lines[-1] if lines else json.dumps({**problem, "error": done.stderr.strip()[-300:]})


def tate_folder(folder: Path) -> str:
    """Write the embedded collection, as tf-idf of its words, and return the folder."""
    from labelprism.data import load_tate
    from labelprism.features import TextHasher, Tfidf

    folder.mkdir()
    train, test = load_tate()
    hasher, weights = TextHasher(n_bits=16), Tfidf()
    sp.save_npz(folder / "X_trn.npz", weights.fit_transform(hasher.fit_transform(train.texts)))
    sp.save_npz(folder / "X_tst.npz", weights.transform(hasher.transform(test.texts)))
    sp.save_npz(folder / "Y_trn.npz", train.Y)
    sp.save_npz(folder / "Y_tst.npz", test.Y)
    return str(folder)


def one(preset: str, folder: str, threads: int) -> None:
    """Measure labelprism, and print a line of JSON."""
    X, Y, X_test, Y_test = (
        sp.csr_matrix(sp.load_npz(Path(folder) / f"{name}.npz"), dtype=np.float32)
        for name in ("X_trn", "Y_trn", "X_tst", "Y_tst")
    )
    start, cpu = time.perf_counter(), time.process_time()
    model = PrismClassifier(n_jobs=threads, random_state=0, **PRESETS[preset]).fit(X, Y)
    line: dict[str, Any] = {"peer": "labelprism", "preset": preset, "dataset": Path(folder).name, "threads": threads}
    line |= {"train_s": time.perf_counter() - start, "train_cpu_s": time.process_time() - cpu}
    with tempfile.TemporaryDirectory() as scratch:
        model.save(f"{scratch}/model")
        line["model_bytes"] = sum(file.stat().st_size for file in Path(scratch).rglob("*") if file.is_file())
        model = PrismClassifier.load(f"{scratch}/model")
        start = time.perf_counter()
        model.predict_topk(X_test, 5)
        line["predict_s"] = time.perf_counter() - start
        found, _ = model.predict_topk(X_test, 100)
        rows = [X_test[i] for i in range(min(SINGLE_ROWS, X_test.shape[0]))]
        line["single_ms_p50"] = 1e3 * float(np.median([seconds_of_row(model, row) for row in rows]))
    quality = metrics.evaluate(Y_test, found, Y)
    line |= {key: quality[name] for name, key in METRICS.items()}
    line["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(line))


def seconds_of_row(model: PrismClassifier, row: sp.csr_matrix) -> float:
    start = time.perf_counter()
    model.predict_topk(row, 5)
    return time.perf_counter() - start


# ------------------------------------------------------------------------------------------------------------- report


def report(results: Path, page: Path, picture: Path) -> None:
    """Write a page with a table for every data set, and draw accuracy against time."""
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines() if line.strip()]
    latest = {(line["dataset"], line["peer"], line["preset"], bool(line.get("l2norm"))): line for line in lines}
    by_data: dict[str, list[dict[str, Any]]] = {}
    for line in latest.values():
        by_data.setdefault(line["dataset"], []).append(line)
    draw({name: [line for line in lines if "error" not in line] for name, lines in by_data.items()}, picture)
    text = page.read_text(encoding="utf-8") if page.exists() else "# Benchmarks\n\n<!-- tables -->\n<!-- end -->\n"
    before, rest = text.split("<!-- tables -->\n")
    after = rest.split("<!-- end -->\n")[1]
    parts = [f"{machine()}\n\n![P@1 against time](pictures/{picture.name})\n"]
    parts += [f"### {name}\n\n{table(lines)}" for name, lines in by_data.items()]
    page.write_text(f"{before}<!-- tables -->\n" + "\n".join(parts) + f"<!-- end -->\n{after}", encoding="utf-8")


def table(lines: list[dict[str, Any]]) -> str:
    """Return the systems of a data set as Markdown, the best P@1 first and the best of each metric in bold."""
    good = sorted((line for line in lines if "error" not in line), key=lambda line: -line["p_at_1"])
    best = {key: max(line[key] for line in good) for key in METRICS.values()} if good else {}
    rows = [f"| system | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for line in good:
        cells = [cell(key, line.get(key), best.get(key)) for key in COLUMNS.values()]
        rows.append(f"| {title(line)} | {' | '.join(cells)} |")
    rows += [f"| {title(line)} | {line['error']} |" for line in lines if "error" in line]
    return "\n".join(rows) + "\n"


def title(line: dict[str, Any]) -> str:
    return f"{line['peer']} {line['preset']}" + (", unit rows" if line.get("l2norm") else "")


def cell(key: str, value: float | None, best: float | None) -> str:
    if value is None:
        return ""
    if best is not None:
        shown = f"{100 * value:.2f}"
        return f"**{shown}**" if value == best else shown
    return {
        "model_bytes": f"{value / 1e6:.1f}",
        "peak_rss_mb": f"{value:.0f}",
        "single_ms_p50": f"{value:.3f}",
        "predict_s": f"{value:.3f}",
    }.get(key, f"{value:.1f}")


def draw(by_data: dict[str, list[dict[str, Any]]], picture: Path) -> None:
    """Draw P@1 against the time of training and of prediction, one column for each data set."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "labelprism"  # the same picture has the same bytes
    from matplotlib import pyplot, ticker

    systems = sorted({title(line) for lines in by_data.values() for line in lines})
    columns = min(4, len(by_data))
    rows = 2 * -(-len(by_data) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(3.4 * columns, 2.7 * rows), squeeze=False)
    for ax in axes.flat:
        ax.set_visible(False)
    for number, (name, lines) in enumerate(by_data.items()):
        for offset, key in enumerate(("train_s", "predict_s")):
            ax = axes[number // columns * 2 + offset, number % columns]
            ax.set_visible(True)
            for line in lines:
                order = systems.index(title(line))
                marker = "*" if line["peer"] == "labelprism" else "os^vDP"[order % 6]
                size = 130 if marker == "*" else 30
                ax.scatter(line[key], 100 * line["p_at_1"], s=size, marker=marker, color=f"C{order % 10}")
            seconds = [line[key] for line in lines]
            ax.set(xscale="log", title=name if not offset else "", ylabel="P@1, %")
            ax.set(xlim=(min(seconds) / 1.6, 1.6 * max(seconds)))
            ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 3)))
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_formatter("")
            ax.set_xlabel("training, s" if not offset else "prediction of the test rows, s")
    marks = [
        pyplot.Line2D([], [], ls="", color=f"C{i % 10}", label=name, marker="*" if "prism" in name else "os^vDP"[i % 6])
        for i, name in enumerate(systems)
    ]
    figure.legend(handles=marks, loc="lower center", ncols=min(5, len(systems)), frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.03 + 0.015 * len(systems) / 5, 1, 1))
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    running = commands.add_parser("run")
    running.add_argument("results", type=Path)
    running.add_argument("folders", nargs="*")
    running.add_argument("--command", help="runs one system; see above")
    running.add_argument("--systems", default="small")
    running.add_argument("--timeout", type=float, default=1800)
    measuring = commands.add_parser("one")
    measuring.add_argument("preset", choices=PRESETS)
    measuring.add_argument("folder")
    for command in (running, measuring):
        command.add_argument("--threads", type=int, default=2)
    reporting = commands.add_parser("report")
    for name in ("results", "page", "picture"):
        reporting.add_argument(name, type=Path)
    a = parser.parse_args()
    if a.what == "run":
        run(a.results, a.folders, a.command, a.systems, a.threads, a.timeout)
    elif a.what == "one":
        one(a.preset, a.folder, a.threads)
    else:
        report(a.results, a.page, a.picture)


if __name__ == "__main__":
    main()
