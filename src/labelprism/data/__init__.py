"""Data sets: one `Dataset`, and readers and writers of the formats of the field."""

from labelprism.data.dataset import Dataset
from labelprism.data.detect import load
from labelprism.data.directory_writing import convert_to_directory, write_directory
from labelprism.data.matrices import read_matrix, read_npz, write_npz
from labelprism.data.sparse_text import read_svmlight, read_xc, write_svmlight, write_xc
from labelprism.data.stream import stream_matrix, stream_sparse_text, stream_texts
from labelprism.data.tate import load_tate
from labelprism.data.text import read_jsonl, read_tsv, write_jsonl, write_tsv
from labelprism.errors import DataFormatError

__all__ = [
    "DataFormatError",
    "Dataset",
    "convert_to_directory",
    "load",
    "load_tate",
    "read_jsonl",
    "read_matrix",
    "read_npz",
    "read_svmlight",
    "read_tsv",
    "read_xc",
    "stream_matrix",
    "stream_sparse_text",
    "stream_texts",
    "write_directory",
    "write_jsonl",
    "write_npz",
    "write_svmlight",
    "write_tsv",
    "write_xc",
]
