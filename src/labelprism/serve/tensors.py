"""Tensors of the Open Inference Protocol, as JSON and as bytes after it (the extension "binary_tensor_data")."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from labelprism.serve.errors import RequestError, invalid
from labelprism.serve.schemas import Tensor

HEADER_LENGTH = "Inference-Header-Content-Length"
"""The header that says where the JSON ends and the bytes begin."""

_DTYPES = {
    "BOOL": "|b1", "UINT8": "|u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
    "INT8": "|i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip


def split_body(header_length: str | None, body: bytes) -> tuple[bytes, bytes]:
    """Return the JSON of a body and the bytes after it."""
    if header_length is None:
        return body, b""
    if not (header_length.isascii() and header_length.isdigit()) or int(header_length) > len(body):
        raise RequestError(400, "invalid_request", f"{HEADER_LENGTH} must be the length of the JSON in the body")
    return body[: int(header_length)], body[int(header_length) :]


def values_of(inputs: Sequence[Tensor], blobs: bytes) -> dict[str, Any]:
    """Return the tensors of a request as arrays by name; BYTES as arrays of str or bytes objects.

    Parameters
    ----------
    inputs : sequence of Tensor
    blobs : bytes
        The binary parts, in the order of the inputs that have one.
    """
    found: dict[str, Any] = {}
    for tensor in inputs:
        place = f"inputs.{tensor.name[:100]}"
        if tensor.datatype != "BYTES" and tensor.datatype not in _DTYPES:
            raise invalid(f"the datatype {tensor.datatype[:20]!r} is unknown; BYTES, INT64, FP32 and so on are", place)
        size = (tensor.parameters or {}).get("binary_data_size")
        if size is not None:
            if type(size) is not int or not 0 <= size <= len(blobs) or tensor.data is not None:
                raise invalid(
                    "binary_data_size must be the bytes of the tensor after the JSON, in place of data", place
                )
            blob, blobs = blobs[:size], blobs[size:]
            values = _from_bytes(tensor, blob, place)
        elif tensor.data is None:
            raise invalid("the tensor has no data", place)
        else:
            values = _from_json(tensor, place)
        if values.size != prod(tensor.shape):
            raise invalid(f"the tensor has {values.size} values, which is not the shape {tensor.shape[:10]}", place)
        found[tensor.name] = values.reshape(tensor.shape)
    return found


def _from_json(tensor: Tensor, place: str) -> Any:
    flat = list(_flattened(tensor.data or [], 0, place))
    if tensor.datatype == "BYTES":
        if not all(isinstance(value, str) for value in flat):
            raise invalid("tensors of BYTES hold strings", place)
        values = np.empty(len(flat), object)
        values[:] = flat
        return values
    wanted = (bool,) if tensor.datatype == "BOOL" else (int, float) if tensor.datatype.startswith("FP") else (int,)
    if not all(type(value) in wanted for value in flat):
        raise invalid(f"the tensor holds something that is no {tensor.datatype}", place)
    try:
        with np.errstate(over="ignore"):
            return np.array(flat, dtype=_DTYPES[tensor.datatype])
    except OverflowError:
        raise invalid(f"the tensor holds a number that is beyond {tensor.datatype}", place) from None


def _flattened(data: list[Any], depth: int, place: str) -> Any:
    if depth > 2:
        raise invalid("the data is nested more deeply than tensors here are", place)
    for value in data:
        if isinstance(value, list):
            yield from _flattened(value, depth + 1, place)
        else:
            yield value


def _from_bytes(tensor: Tensor, blob: bytes, place: str) -> Any:
    if tensor.datatype != "BYTES":
        dtype = np.dtype(_DTYPES[tensor.datatype])
        if len(blob) % dtype.itemsize:
            raise invalid(f"{len(blob)} bytes are no whole number of {tensor.datatype}", place)
        return np.frombuffer(blob, dtype)
    found, at = [], 0
    while at < len(blob):
        end = at + 4 + int.from_bytes(blob[at : at + 4], "little")
        if at + 4 > len(blob) or end > len(blob):
            raise invalid("a string of the tensor ends beyond its bytes", place)
        found.append(blob[at + 4 : end])
        at = end
    values = np.empty(len(found), object)
    values[:] = found
    return values


def packed(name: str, datatype: str, values: Any, is_binary: bool) -> tuple[dict[str, Any], bytes]:
    """Return the entry of an output, and the bytes that go after the JSON, if it is binary."""
    entry: dict[str, Any] = {"name": name, "datatype": datatype, "shape": list(values.shape)}
    if not is_binary:
        flat = values.ravel().tolist()
        if datatype == "FP32":
            flat = [float(f"{value:.7g}") for value in flat]
        return {**entry, "data": flat}, b""
    if datatype == "BYTES":
        encoded = [text.encode() for text in values.ravel().tolist()]
        blob = b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    else:
        blob = np.ascontiguousarray(values, _DTYPES[datatype]).tobytes()
    return {**entry, "parameters": {"binary_data_size": len(blob)}}, blob
