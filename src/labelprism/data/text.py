"""Readers and writers of texts with labels: TSV (also Annif's) and JSON Lines, plain or compressed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from labelprism._arrays import MAX_COLUMNS
from labelprism._progress import ProgressBar
from labelprism.data.dataset import Dataset
from labelprism.data.files import StrPath, text_lines, writing
from labelprism.data.label_rows import LabelRows, UnknownLabels
from labelprism.errors import DataFormatError

ANNIF = "<>"
"""The `label_sep` of Annif's layout: each label in angle brackets, blanks between them."""

NO_ROWS = "the file has no rows; at least one example is expected"
"""What to say of a file of texts that is empty."""

# ---------------------------------------------------------------- reading


def read_tsv(
    path: StrPath,
    *,
    label_sep: str | None = None,
    label_kind: Literal["name", "id"] = "name",
    label_names: Sequence[str] | None = None,
    unknown_labels: UnknownLabels = "error",
    n_labels: int | None = None,
) -> Dataset:
    """Read a file with one example a line: the text, a TAB, its labels.

    Blanks around a label are dropped, a label that a row repeats is taken once, and a row may have no labels. A blank
    last line is ignored.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed with gzip, xz or zstd.
    label_sep : str, optional
        What separates the labels of a row; "<>" is Annif's layout, `<uri> <uri>`, whose URIs become the names. When
        left out, labels that start with "<" are in Annif's layout, and others are separated by ",".
    label_kind : {"name", "id"}
        Whether the labels are names, or the numbers of the columns of `Y` from 0.
    label_names : sequence of str, optional
        The names of the columns; for a test set give those of the training set, so that the columns agree. When left
        out, the columns are the names that occur, sorted, or as many as the largest id asks for.
    unknown_labels : {"error", "ignore"}
        What to do with a name that is not in `label_names`. An id beyond them is always an error.
    n_labels : int, optional
        For ids without names, the number of columns; for a test set give that of the training set. A larger id is an
        error then. `Y` has so many columns also where no row has a label.

    Returns
    -------
    Dataset
        With `texts` and `Y`, and with `label_names` unless the labels are ids and no names were given.
    """
    rows = tsv_labels(label_kind, label_names, unknown_labels, n_labels)
    return _dataset(list(tsv_texts(path, rows, label_sep, label_kind)), rows, path)


def read_jsonl(
    path: StrPath,
    *,
    text_key: str = "text",
    labels_key: str | None = None,
    label_sep: str | None = None,
    label_names: Sequence[str] | None = None,
    unknown_labels: UnknownLabels = "error",
    n_labels: int | None = None,
) -> Dataset:
    """Read a file with one JSON object a line, as `{"text": "A ship at sea", "labels": ["ship", "sea"]}`.

    The labels are a list of names, of column numbers from 0, or of objects that have a name under "uri", or else
    "label", or else "name" (Annif's subjects); or they are one string of names. A file has either names or numbers.
    A label that a row repeats is taken once. Blank lines are skipped, and so are other keys.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed with gzip, xz or zstd.
    text_key : str
        The key of the text.
    labels_key : str, optional
        The key of the labels; when left out, "labels", or else "subjects".
    label_sep : str, optional
        What separates the labels where they are one string, as in `read_tsv`.
    label_names, unknown_labels, n_labels
        As in `read_tsv`.

    Returns
    -------
    Dataset
        With `texts` and `Y`, and with `label_names` unless the labels are ids and no names were given.
    """
    rows = LabelRows(label_names, unknown_labels, n_labels)
    return _dataset(list(jsonl_texts(path, rows, text_key, labels_key, label_sep)), rows, path)


def tsv_labels(
    label_kind: Literal["name", "id"] = "name",
    label_names: Sequence[str] | None = None,
    unknown_labels: UnknownLabels = "error",
    n_labels: int | None = None,
) -> LabelRows:
    """Return what gathers the labels of TSV; parameters as in `read_tsv`."""
    if label_kind not in ("name", "id"):
        raise ValueError(f'label_kind must be "name" or "id", got {label_kind!r}')
    return LabelRows(label_names, unknown_labels, n_labels, "id" if label_kind == "id" else None)


def tsv_texts(
    path: StrPath, rows: LabelRows, label_sep: str | None = None, label_kind: Literal["name", "id"] = "name"
) -> Iterator[str]:
    """Yield the texts of TSV, one row after the other, and add the labels of each to `rows`.

    Parameters
    ----------
    path, label_sep, label_kind
        As in `read_tsv`.
    rows : LabelRows
        From `tsv_labels`.
    """
    _check_separator(label_sep)
    for number, text, field in _tsv_rows(path):
        try:
            labels = _split_labels(field, label_sep)
            if label_kind == "name":
                rows.add_names(labels)
            else:
                rows.add_ids([_parse_id(label) for label in labels])
        except DataFormatError as error:
            raise DataFormatError(error.message, path, number, error.token) from None
        yield text


def jsonl_texts(
    path: StrPath,
    rows: LabelRows,
    text_key: str = "text",
    labels_key: str | None = None,
    label_sep: str | None = None,
) -> Iterator[str]:
    """Yield the texts of JSON Lines, one row after the other, and add the labels of each to `rows`.

    Parameters
    ----------
    path, text_key, labels_key, label_sep
        As in `read_jsonl`.
    rows : LabelRows
    """
    _check_separator(label_sep)
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            record = _json_object(line)
            text = _json_text(record, text_key)
            labels = _json_labels(record, labels_key, label_sep)
            if "\\ud" in line or "\\uD" in line:  # the only way to a lone surrogate, and a rare one
                _refuse_surrogates([text, *labels])
            rows.add(labels)
        except DataFormatError as error:
            raise DataFormatError(error.message, path, number, error.token) from None
        except RecursionError:
            message = "the JSON is nested too deeply to be read; one flat object is expected"
            raise DataFormatError(message, path, number, line) from None
        yield text


# Below, faults are raised without file and line, which the loops above add.


def _dataset(texts: list[str], rows: LabelRows, path: StrPath) -> Dataset:
    if not texts:
        raise DataFormatError(NO_ROWS, path)
    Y, names = rows.finish()
    return Dataset(Y=Y, label_names=names, texts=texts)


def _tsv_rows(path: StrPath) -> Iterator[tuple[int, str, str]]:
    """Yield line number, text and label field of each row."""
    blank_line = None
    for number, line in text_lines(path):
        if blank_line is not None:
            raise DataFormatError("the line is blank; only the last line may be", path, blank_line)
        text, tab, field = line.partition("\t")
        if tab and "\t" not in field:
            yield number, text, field
        elif not tab and not line.strip():
            blank_line = number
        else:
            tabs = line.count("\t")
            message = f"one TAB is expected, between the text and its labels; found {tabs or 'none'}"
            raise DataFormatError(message, path, number, line)


def _split_labels(field: str, label_sep: str | None) -> list[str]:
    """Return the labels in a field; `label_sep` None tells Annif's layout and "," apart by the first character."""
    if not field.strip():
        return []
    if label_sep == ANNIF or (label_sep is None and field.lstrip().startswith("<")):
        return [_without_brackets(token) for token in field.split()]
    separator = "," if label_sep is None else label_sep
    labels = [label.strip() for label in field.split(separator)]
    if not all(labels):
        raise DataFormatError(f"there is an empty label; labels are separated by one {separator!r} each", token=field)
    return labels


def _without_brackets(token: str) -> str:
    name = token[1:-1]
    if not (name and token[0] == "<" and token[-1] == ">") or "<" in name or ">" in name:
        message = "malformed label: a field that starts with '<' is read as <uri> <uri>, with blanks between"
        raise DataFormatError(message, token=token)
    return name


def _parse_id(token: str) -> int:
    # int() alone would also take "+1", "1_000" and the digits of other scripts.
    if not (token.isascii() and token.isdigit()):
        raise DataFormatError('a label id must be a non-negative integer; for names use label_kind="name"', token=token)
    if len(token) > 20:  # int() of thousands of digits is slow and then refused
        raise DataFormatError(f"a label id must be an integer from 0 to {MAX_COLUMNS - 1}", token=token)
    return int(token)


def json_text(line: str, key: str) -> str:
    """Return the text of a line of JSON, labels ignored.

    Parameters
    ----------
    line : str
    key : str
        The key of the text.
    """
    try:
        text = _json_text(_json_object(line), key)
    except RecursionError:
        message = "the JSON is nested too deeply to be read; one flat object is expected"
        raise DataFormatError(message, token=line) from None
    _refuse_surrogates([text])
    return text


def _json_object(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        message = f"invalid JSON at column {error.colno}: {error.msg}; one object a line is expected"
        raise DataFormatError(message, token=line[error.pos : error.pos + 40] or line) from None
    except ValueError as error:  # a number of thousands of digits
        raise DataFormatError(f"invalid JSON: {error}", token=line) from None
    if not isinstance(record, dict):
        raise DataFormatError(f"an object is expected, as {{...}}, not {_json_type(record)}", token=line)
    return record


def _json_text(record: dict[str, Any], key: str) -> str:
    if key not in record:
        raise DataFormatError(
            f"the key {key!r} of the text is missing; text_key names another one", token=_keys(record)
        )
    text = record[key]
    if not isinstance(text, str):
        raise DataFormatError(f"the text under {key!r} must be a string, not {_json_type(text)}", token=repr(text))
    return text


def _json_labels(record: dict[str, Any], key: str | None, label_sep: str | None) -> list[Any]:
    """Return the labels of a record, each a name or an id."""
    if key is None:
        key = "labels" if "labels" in record or "subjects" not in record else "subjects"
    if key not in record:
        raise DataFormatError(
            f"the key {key!r} of the labels is missing; labels_key names another one", token=_keys(record)
        )
    labels = record[key]
    if isinstance(labels, str):
        return _split_labels(labels, label_sep)
    if not isinstance(labels, list):
        raise DataFormatError(
            f"the labels under {key!r} must be a list or a string, not {_json_type(labels)}", token=repr(labels)
        )
    return [_json_label(label) for label in labels]


def _json_label(label: Any) -> str | int:
    value = label
    if isinstance(label, dict):
        value = next((label[key] for key in ("uri", "label", "name") if label.get(key) is not None), None)
        if not isinstance(value, str):
            raise DataFormatError(
                'a label that is an object must have a string "uri", "label" or "name"', token=repr(label)
            )
    if value == "":
        raise DataFormatError("there is an empty label; a row without labels has []", token=repr(label))
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise DataFormatError(
            f"a label must be a string, an integer or an object, not {_json_type(value)}", token=repr(label)
        )
    return value


def _refuse_surrogates(values: Iterable[Any]) -> None:
    for value in values:
        try:
            str(value).encode("utf-8")
        except UnicodeEncodeError as error:
            message = "a string holds half of a surrogate pair, which is no character; write the pair or leave it out"
            raise DataFormatError(message, token=f"\\u{ord(value[error.start]):04x}") from None


def _json_type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _keys(record: dict[str, Any]) -> str:
    return ", ".join(record)


# ---------------------------------------------------------------- writing


def write_tsv(dataset: Dataset, path: StrPath, *, label_sep: str = ",") -> None:
    """Write texts and labels as TSV, so that `read_tsv` reads them as they are; `X` is not written.

    Labels are written as names where the data set has names, else as ids (read those with `label_kind="id"`). Give
    `label_names` to `read_tsv` to have the columns in the same order, with those that do not occur.

    Parameters
    ----------
    dataset : Dataset
        With texts.
    path : path-like
        A name that ends in `.gz`, `.xz` or `.zst` is compressed.
    label_sep : str
        What to put between the labels of a row; "<>" writes Annif's layout, `<uri> <uri>`.

    Raises
    ------
    ValueError
        When a text or name cannot be told from the layout, as a text with a TAB; the old file then stays.
    """
    _check_separator(label_sep)
    tokens: dict[int, str] = {}
    with writing(path) as stream:
        for row, text, columns in _rows_to_write(dataset):
            _check_tsv_text(text, row)
            for column in columns:
                if column not in tokens:
                    tokens[column] = _tsv_label(dataset, column, label_sep, row)
            between = " " if label_sep == ANNIF else label_sep
            stream.write(_encoded(f"{text}\t{between.join([tokens[column] for column in columns])}\n", row))


def write_jsonl(dataset: Dataset, path: StrPath) -> None:
    """Write texts and labels as JSON Lines, so that `read_jsonl` reads them as they are; `X` is not written.

    Labels are written as names where the data set has names, else as ids. Give `label_names` to `read_jsonl` to have
    the columns in the same order, with those that do not occur.

    Parameters
    ----------
    dataset : Dataset
        With texts.
    path : path-like
        A name that ends in `.gz`, `.xz` or `.zst` is compressed.
    """
    names = dataset.label_names
    with writing(path) as stream:
        for row, text, columns in _rows_to_write(dataset):
            labels = columns if names is None else [names[column] for column in columns]
            if "" in labels:
                raise ValueError(f"row {row}: a label has an empty name; give it a name before writing")
            record = json.dumps({"text": text, "labels": labels}, ensure_ascii=False)
            stream.write(_encoded(f"{record}\n", row))


def _rows_to_write(dataset: Dataset) -> Iterator[tuple[int, str, list[Any]]]:
    """Yield number, text and label columns of each row."""
    if dataset.texts is None:
        raise ValueError("the data set has no texts to write; write_npz writes one that has a matrix X")
    indptr = dataset.Y.indptr.tolist()
    with ProgressBar(dataset.n_rows, "writing texts", "rows") as bar:
        for row, text in enumerate(dataset.texts):
            yield row, text, dataset.Y.indices[indptr[row] : indptr[row + 1]].tolist()
            bar.advance()


def _check_tsv_text(text: str, row: int) -> None:
    for character, name in (("\t", "a TAB"), ("\n", "a line break"), ("\0", "a NUL character")):
        if character in text:
            raise ValueError(f"row {row}: the text holds {name}, which TSV cannot hold; use write_jsonl")
    if row == 0 and text.startswith("\ufeff"):
        raise ValueError("row 0: the text starts with a byte order mark, which readers skip; use write_jsonl")


def _tsv_label(dataset: Dataset, column: int, label_sep: str, row: int) -> str:
    """Return the label as TSV has it, made sure that `_split_labels` gives it back."""
    name = str(column) if dataset.label_names is None else dataset.label_names[column]
    if label_sep == ANNIF:
        survives = name.split() == [name] and "<" not in name and ">" not in name
    else:
        # The separator after the name must be the first one found, also where a longer one could overlap with it.
        survives = name == name.strip() != "" and (name + label_sep).index(label_sep) == len(name)
        survives = survives and not name.startswith("<")
    if not survives or any(character in name for character in "\t\n\0"):
        raise ValueError(
            f"row {row}: the label {name!r} would not be read back from TSV with label_sep={label_sep!r}; "
            "use another label_sep, or write_jsonl"
        )
    return f"<{name}>" if label_sep == ANNIF else name


def _encoded(line: str, row: int) -> bytes:
    try:
        return line.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"row {row}: a string holds half of a surrogate pair, which UTF-8 cannot hold") from error


def _check_separator(label_sep: str | None) -> None:
    if label_sep is None:
        return
    if not isinstance(label_sep, str) or not label_sep or any(character in label_sep for character in "\t\n\r\0"):
        raise ValueError(f"label_sep must be a text without TAB, line break or NUL, got {label_sep!r}")
