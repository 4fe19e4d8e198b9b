"""Every command and every flag. Nothing heavy is imported here: `--help` must be instant."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from labelprism import __version__
from labelprism.cli import settings
from labelprism.cli.settings import Setting

EXIT_CODES = """\
exit codes:
  0    done
  1    something unexpected; --debug shows where
  2    a mistake in the command line or in a file of settings, or an extra that is not installed
  3    bad input data, or settings that do not suit it
  4    not a model, or a damaged one
  5    a file cannot be read or written: missing, no permission, disk full
  130  interrupted by Ctrl-C; 143 terminated. Nothing half-written stays
"""

FORMATS = (
    "TSV (text TAB labels), JSON lines, sparse text (XC repository, svmlight) or scipy .npz, compressed or not; "
    "or a .ds directory"
)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="labelprism",
        description="Learn to suggest labels, of which there may be a million, for texts or rows of numbers.",
        epilog="labelprism COMMAND --help says more of a command.\n\n" + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"labelprism {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    added = (_train, _predict, _evaluate, _compare, _tune, _inspect, _explore, _convert, _serve, _demo, _completion)
    for add in added:
        add(commands)
    return parser


def _command(commands: Any, name: str, module: str, description: str, **more: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=description,
        description=f"{description[0].upper()}{description[1:]}.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        **more,
    )
    parser.set_defaults(module=module, command=name)
    group = parser.add_argument_group("messages")
    group.add_argument("-v", dest="more", action="count", default=0, help="say more on standard error")
    group.add_argument("-q", dest="less", action="count", default=0, help="say less: warnings and errors only")
    group.add_argument("--debug", action="store_true", help="show where in the program an error comes from")
    return parser


# ----------------------------------------------------------------------------------------------------------- commands


def _train(commands: Any) -> None:
    parser = _command(commands, "train", "labelprism.cli.train", "learn from texts or rows with labels")
    _file(parser, "data", "what to learn from: " + FORMATS, nargs="?")
    _file(parser, "--out", "the folder that the model goes to; an older model there is replaced", metavar="MODEL")
    _file(parser, "--test", "measure the model on this data too")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a summary")
    _training_flags(parser)
    parser.add_argument("--dump-config", action="store_true", help="print all settings as TOML, and stop")
    group = parser.add_argument_group("long trainings, and data larger than memory")
    group.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="keep there what is done; the same command goes on from it after a stop of any kind. Removed at the end",
    )
    group.add_argument(
        "--memory-limit",
        metavar="SIZE",
        help="memory of its own that training may take, as 4G; if that is too little, large arrays lie in files",
    )
    group.add_argument(
        "--scratch",
        metavar="FOLDER",
        help="where large arrays lie in files; without --memory-limit they always do (the folder for temporary files)",
    )


def _predict(commands: Any) -> None:
    parser = _command(commands, "predict", "labelprism.cli.predict", "suggest labels for texts or rows")
    _file(parser, "model", "the folder of a model")
    _file(parser, "input", "texts, one a line, or TSV or JSON lines; or rows. Standard input when left out or -",
          nargs="?", default="-")  # fmt: skip
    parser.add_argument("-k", "--k", type=_at_least_one, default=5, help="how many labels to suggest (5)")
    parser.add_argument("--threshold", type=float, metavar="SCORE", help="leave out labels with a lower score")
    parser.add_argument("--probabilities", action="store_true", help="give probabilities, from 0 to 1, for scores")
    _file(parser, "--allow", "suggest only labels that are in this file, one a line")
    parser.add_argument("--explain", action="store_true", help="say why each label is suggested (JSON lines only)")
    parser.add_argument("--format", choices=("jsonl", "tsv", "table"), default="jsonl", help="of the output (jsonl)")
    _file(parser, "--output", "where the suggestions go instead of standard output; there only once it is whole")
    parser.add_argument(
        "--input-format", choices=("auto", "text", "tsv", "jsonl"), default="auto",
        help="what the texts are in; by default the first line tells",
    )  # fmt: skip
    parser.add_argument("--n-jobs", type=int, help="threads; those of the training when left out")
    _data_flags(parser)


def _evaluate(commands: Any) -> None:
    parser = _command(
        commands,
        "evaluate",
        "labelprism.cli.evaluate",
        "measure a model, or a file of predictions, on labelled data",
    )
    _file(parser, "model", "the folder of a model; left out with --predictions", nargs="?")
    _file(parser, "data", "rows with their true labels")
    _file(parser, "--predictions", "what `predict` wrote for the data, or a sparse .npz of scores")
    _file(parser, "--plot", "draw the metrics into this file, .svg, .png or .pdf (needs matplotlib)")
    _measuring_flags(parser)
    _groups_flag(parser)


def _compare(commands: Any) -> None:
    parser = _command(
        commands, "compare", "labelprism.cli.compare", "tell which of two files of predictions is better, and how sure"
    )
    _file(parser, "a", "what `predict` wrote for the data, or a sparse .npz of scores")
    _file(parser, "b", "the same by another model")
    _file(parser, "data", "the rows with their true labels")
    _measuring_flags(parser)


def _tune(commands: Any) -> None:
    parser = _command(commands, "tune", "labelprism.cli.tune", "try settings on held-out rows, and keep the best")
    _file(parser, "data", "what to learn from, as for train")
    parser.add_argument("--trials", type=_at_least_one, default=12, help="how many settings to try at most (12)")
    parser.add_argument("--minutes", type=_above_zero, help="start no further trial after this time")
    parser.add_argument("--metric", default="nDCG@5", help="what to choose by: P@k, nDCG@k, PSP@k, recall@k (nDCG@5)")
    parser.add_argument("--rows", type=_at_least_one, help="learn from so many rows only, drawn at random")
    parser.add_argument(
        "--vary", action="append", default=[], metavar="KEY=A,B,C",
        help="try these values, as in features__n_bits=16,18,20; instead of the usual ones; may be repeated",
    )  # fmt: skip
    _file(parser, "--out-config", "where the best settings go, as TOML for train --config")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    _training_flags(parser)


def _inspect(commands: Any) -> None:
    parser = _command(
        commands, "inspect", "labelprism.cli.inspection", "tell what is in a model, or in a .ds directory"
    )
    _file(parser, "model", "the folder of a model or of a data set")
    parser.add_argument("--label", help="one label: its examples and its strongest features")
    parser.add_argument("--top", type=_at_least_one, default=15, help="how many features of a label to show (15)")
    parser.add_argument("--verify", action="store_true", help="read all files, and compare them with their SHA-256")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _explore(commands: Any) -> None:
    parser = _command(
        commands, "explore", "labelprism.cli.explore", "look at which labels live together in the trees of a model"
    )
    _file(parser, "model", "the folder of a model")
    _file(parser, "--data", "examples with labels, to measure on and to show: " + FORMATS)
    _file(parser, "--out", "write the trees as one page, .html, that works offline (needs plotly)", metavar="PAGE")
    _file(parser, "--png", "write still pictures into this folder (needs matplotlib)", metavar="FOLDER")
    parser.add_argument("--table", action="store_true", help="print the most frequent labels of nodes")
    parser.add_argument("--title", help="of the page")
    parser.add_argument(
        "--examples", type=_at_least_zero, default=50, help="how many examples of the data to explain in the page (50)"
    )
    parser.add_argument(
        "--measure", choices=("purity", "balance", "recall", "tail share"), default="purity",
        help="what colours of the pictures are (purity)",
    )  # fmt: skip
    parser.add_argument(
        "--node", type=_at_least_zero, help="with --png and --data: draw the projection of this node (all roots)"
    )
    parser.add_argument(
        "--row", type=_at_least_one, default=1, help="with --png and --data: draw the ways of this row of the data (1)"
    )
    parser.add_argument("--depth", type=_at_least_zero, default=3, help="how deep nodes of the table lie at most (3)")
    parser.add_argument("--top", type=_at_least_one, default=10, help="how many labels of each node to print (10)")
    parser.add_argument("--json", action="store_true", help="print the table as JSON lines")
    _groups_flag(parser)
    parser.add_argument("--n-jobs", type=int, help="threads; those of the training when left out")
    _data_flags(parser)


def _convert(commands: Any) -> None:
    parser = _command(commands, "convert", "labelprism.cli.convert", "write data in another format")
    _file(parser, "source", FORMATS)
    _file(
        parser,
        "target",
        "a name in .tsv, .jsonl, .npz, .svm or .txt (XC), with .gz, .xz or .zst to compress; or in .ds",
    )
    parser.add_argument("--features", action="store_true", help="make features of texts, to write them as a matrix")
    _text_flags(parser)
    _data_flags(parser)


def _serve(commands: Any) -> None:
    parser = _command(commands, "serve", "labelprism.cli.serve", "answer requests over HTTP, and show a page to try")
    _file(parser, "models", "folders of models, each called by the name of its folder", nargs="*", metavar="model")
    parser.add_argument(
        "--model", action="append", default=[], metavar="NAME=FOLDER", help="a model and its name; may be repeated"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (127.0.0.1: this machine only)")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (8000)")
    parser.add_argument("--workers", type=_at_least_one, default=1, help="processes, which share the models (1)")
    parser.add_argument("--threads", type=_at_least_one, default=1, help="of the native code in each worker (1)")
    parser.add_argument("--token", help="what requests must bring; better in the variable LABELPRISM_TOKEN")
    parser.add_argument(
        "--cors-origin", action="append", default=[], metavar="ORIGIN",
        help="let pages of this origin ask, as https://catalogue.example; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--reload", action=argparse.BooleanOptionalAction, default=True, help="take over models that are replaced (on)"
    )
    parser.add_argument("--reload-seconds", type=_above_zero, default=2.0, help="between two looks (2)")
    parser.add_argument(
        "--access-log", action=argparse.BooleanOptionalAction, default=True,
        help="a line of JSON on standard output for each request (on)",
    )  # fmt: skip
    group = parser.add_argument_group("limits")
    whole: dict[str, Any] = {"type": _at_least_one, "metavar": "N"}
    group.add_argument("--max-queue", default=4096, help="rows that may wait in a worker, else 429 (4096)", **whole)
    group.add_argument("--deadline-ms", default=2000, help="how long they may wait, else 503 (2000)", **whole)
    group.add_argument("--max-body", default=8 << 20, help="bytes of a request (8388608)", **whole)
    group.add_argument("--max-rows", default=1024, help="texts or rows of a request (1024)", **whole)
    group.add_argument("--max-features", default=100_000, help="entries of a row (100000)", **whole)
    group.add_argument("--max-k", default=1000, help="labels for a text or row (1000)", **whole)
    group.add_argument("--max-connections", default=1000, help="of a worker (1000)", **whole)
    group.add_argument("--timeout", type=_above_zero, default=30.0, help="seconds for a body to arrive (30)")
    group.add_argument("--shutdown-timeout", default=30, help="seconds to finish when told to end (30)", **whole)


def _demo(commands: Any) -> None:
    parser = _command(commands, "demo", "labelprism.demo", "suggest subjects for works of the Tate, in half a minute")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    _file(
        parser,
        "--write-data",
        "write the works as train.jsonl and test.jsonl into this folder instead",
        metavar="FOLDER",
    )


def _completion(commands: Any) -> None:
    parser = _command(
        commands, "completion", "labelprism.cli.completion", "print what makes a shell complete commands and flags"
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="as in: source <(labelprism completion bash)")


# ------------------------------------------------------------------------------------------------------ groups of flags


def _training_flags(parser: argparse.ArgumentParser) -> None:
    """Add what `train` and `tune` share: every setting."""
    for setting in settings.TRAINING:
        _setting(parser, setting)
    group = parser.add_argument_group("the model")
    for setting in settings.ESTIMATOR:
        _setting(group, setting)
    for part, kinds in settings.PARTS.items():
        _setting(group, Setting(part, "choice", settings.PART_HELP[part], (*kinds, "none")))
    group.add_argument(
        "--set", action="append", default=[], metavar="PART__NAME=VALUE",
        help="a parameter of a part, as in filter__max_depth=10; may be repeated",
    )  # fmt: skip
    _file(group, "--config", "a TOML file of settings; flags go before it")
    _text_flags(parser)
    _data_flags(parser)


def _text_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("features of texts")
    for setting in settings.TEXT_FEATURES:
        _setting(group, setting, "features__")


def _data_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how data is read")
    for setting in settings.DATA:
        _setting(group, setting, "data__")


def _measuring_flags(parser: argparse.ArgumentParser) -> None:
    """Add what `evaluate` and `compare` share."""
    parser.add_argument("-k", "--k", type=_at_least_one, help="measure the k best labels too, beside 1, 3 and 5")
    _file(parser, "--train", "the training data, which tells how frequent labels are, where no model does")
    parser.add_argument("--resamples", type=_at_least_one, default=1000, help="of the bootstrap (1000)")
    parser.add_argument("--confidence", type=_between_0_and_1, default=0.95, help="of the intervals (0.95)")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap (0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    _data_flags(parser)


def _groups_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--groups", type=_two_limits, default=(10, 100), metavar="TAIL,TORSO",
        help="the most training examples of a label of the tail, and of the torso (10,100)",
    )  # fmt: skip


def _setting(group: Any, setting: Setting, prefix: str = "") -> None:
    """Add the flag of a setting; left out, it leaves no trace, so that a file of settings can speak."""
    flag = "--" + setting.name.replace("_", "-")
    short = [flag[1:]] if len(setting.name) == 1 else []
    common = {"dest": prefix + setting.name, "default": argparse.SUPPRESS, "help": setting.help.replace("%", "%%")}
    if setting.kind == "truth":
        group.add_argument(flag, action=argparse.BooleanOptionalAction, **common)
    elif setting.kind == "choice":
        group.add_argument(flag, choices=setting.choices, **common)
    else:
        group.add_argument(*short, flag, type=_typed(setting), metavar=setting.kind.upper(), **common)


def _typed(setting: Setting) -> Callable[[str], Any]:
    def typed(text: str) -> Any:
        return settings.parse_value(setting, text)

    typed.__name__ = {"whole": "whole number", "lengths": "pair of lengths"}.get(setting.kind, setting.kind)
    return typed


def _file(group: Any, name: str, help: str, **more: Any) -> None:
    """Add an argument that is a path; `completion` looks for the mark."""
    action = group.add_argument(name, help=help, **({"metavar": "FILE"} if name.startswith("--") else {}) | more)
    action.is_path = True


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return value


def _at_least_zero(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, got {text}")
    return value


def _above_zero(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be above 0, got {text}")
    return value


def _between_0_and_1(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1, got {text}")
    return value


def _two_limits(text: str) -> tuple[int, int]:
    low, comma, high = text.partition(",")
    if not comma or not 0 < int(low) < int(high):
        raise argparse.ArgumentTypeError(f"two ascending numbers are expected, as 10,100, got {text}")
    return int(low), int(high)
