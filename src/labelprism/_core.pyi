"""Types of the native kernels; see src/core/bindings*.cpp."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Float32: TypeAlias = npt.NDArray[np.float32]
Int32: TypeAlias = npt.NDArray[np.int32]
Int64: TypeAlias = npt.NDArray[np.int64]
Float64: TypeAlias = npt.NDArray[np.float64]
UInt8: TypeAlias = npt.NDArray[np.uint8]
UInt16: TypeAlias = npt.NDArray[np.uint16]
UInt32: TypeAlias = npt.NDArray[np.uint32]
UInt64: TypeAlias = npt.NDArray[np.uint64]

def csr_times_block(indptr: Int64, indices: Int32, data: Float32, block: Float32, n_threads: int = 1) -> Float32: ...
def dense_times_block(X: Float32, block: Float32, n_threads: int = 1) -> Float32: ...
def csr_transposed_times_block(
    indptr: Int64, indices: Int32, data: Float32, n_columns: int, block: Float32, n_threads: int = 1
) -> Float32: ...
def class_sums(
    indptr: Int64, labels: Int32, n_labels: int, example_weight: Float32, block: Float32, n_threads: int = 1
) -> Float32: ...
def instruction_sets() -> list[str]: ...
def instruction_set() -> str: ...
def use_instruction_set(name: str) -> None: ...
def top_k_dense(scores: Float32, k: int, n_threads: int = 1) -> tuple[Int32, Float32]: ...
def top_k_csr(indptr: Int64, indices: Int32, data: Float32, k: int, n_threads: int = 1) -> tuple[Int32, Float32]: ...
def largest_places(values: Float32, wanted: int) -> list[int]: ...
def add_halves(labels: Int32, halves: UInt16, value: float, sums: Float32) -> Float32: ...

class SpectralSettings:
    def __init__(self, n_blocks: int, cg_iterations: int, one_label: bool, drop: float, seed: int) -> None: ...

Solution: TypeAlias = tuple[Float64, Float64, Float32, Int64, Int32, Float32, Float32]

def solve_nodes_csr(
    indptr: Int64,
    indices: Int32,
    data: Float32,
    n_features: int,
    label_indptr: Int64,
    labels: Int32,
    n_labels: int,
    rows: Int32,
    weight: Float32,
    offsets: Int64,
    node_ids: Int64,
    settings: SpectralSettings,
    n_threads: int = 1,
) -> Solution: ...
def solve_nodes_dense(
    X: Float32,
    label_indptr: Int64,
    labels: Int32,
    n_labels: int,
    rows: Int32,
    weight: Float32,
    offsets: Int64,
    node_ids: Int64,
    settings: SpectralSettings,
    n_threads: int = 1,
) -> Solution: ...
def label_counts(
    label_indptr: Int64,
    labels: Int32,
    n_labels: int,
    rows: Int32,
    weight: Float32,
    offsets: Int64,
    n_threads: int = 1,
) -> tuple[Int64, Int32, Float32]: ...
def router_margins_csr(
    indptr: Int64,
    indices: Int32,
    data: Float32,
    n_features: int,
    router_indptr: Int64,
    router_indices: Int32,
    router_data: Float32,
    rows: Int32,
    offsets: Int64,
    nodes: Int64,
    n_threads: int = 1,
) -> Float32: ...
def router_margins_dense(
    X: Float32,
    router_indptr: Int64,
    router_indices: Int32,
    router_data: Float32,
    rows: Int32,
    offsets: Int64,
    nodes: Int64,
    n_threads: int = 1,
) -> Float32: ...

class Tree:
    def __init__(
        self,
        children: Int32,
        bias: Float32,
        noise: Float64,
        indptr: Int64,
        indices: Int32,
        data: Float32,
        n_features: int,
    ) -> None: ...
    def descend_csr(
        self, indptr: Int64, indices: Int32, data: Float32, n_features: int, seed: int | None, n_threads: int = 1
    ) -> Int32: ...
    def descend_dense(self, X: Float32, seed: int | None, n_threads: int = 1) -> Int32: ...

def median_split(values: Float32, weights: Float32) -> float: ...
def weighted_median(values: Float32, weights: Float32) -> float: ...

class Counter:
    def __init__(self) -> None: ...
    def advance(self, amount: int) -> None: ...
    @property
    def done(self) -> int: ...

class ForestSettings:
    def __init__(
        self,
        *,
        n_trees: int,
        max_depth: int,
        stop_labels: int,
        min_rows: int,
        target_recall: float,
        smallest_share: float,
        noise: float,
        growth_noise: float,
        fractional: bool,
        prune_below: float,
        spectral_rows: int,
        router_rows: int,
        min_feature_rows: int,
        sketch_steps: int,
        drop_weight: float,
        drop_share: float,
        seed: int,
        spectral: SpectralSettings,
        refine_rounds: int,
        refine_passes: int,
        refine_cost: float,
    ) -> None: ...

ForestArrays: TypeAlias = tuple[Int32, Float32, Float32, Int64, Int32, Float32, Int64, Int32, Float32, Float32]

class ForestGrower:
    def __init__(
        self,
        settings: ForestSettings,
        n_features: int,
        n_labels: int,
        keys: UInt64,
        indptr: Int64,
        rows: Int32,
        weight: Float32,
        depth: int = 0,
        forest: ForestArrays | None = None,
    ) -> None: ...
    def step_csr(
        self,
        indptr: Int64,
        indices: Int32,
        data: Float32,
        label_indptr: Int64,
        labels: Int32,
        row_ids: Int64,
        n_threads: int = 1,
        counter: Counter | None = None,
    ) -> None: ...
    def step_dense(
        self,
        X: Float32,
        label_indptr: Int64,
        labels: Int32,
        row_ids: Int64,
        n_threads: int = 1,
        counter: Counter | None = None,
    ) -> None: ...
    @property
    def is_done(self) -> bool: ...
    @property
    def depth(self) -> int: ...
    def nodes(self) -> tuple[UInt64, Int64, Int32, Float32]: ...
    def forest(self) -> ForestArrays: ...

def root_keys(settings: ForestSettings) -> list[int]: ...
def expected_levels(n_rows: int, settings: ForestSettings) -> int: ...
def refined_router(
    indptr: Int64,
    indices: Int32,
    data: Float32,
    n_features: int,
    label_indptr: Int64,
    labels: Int32,
    n_labels: int,
    weight: Float32,
    margins: Float32,
    rounds: int,
    passes: int,
    cost: float,
) -> Float32: ...

class ChunkRows:
    def __init__(
        self,
        indptr: Int64,
        indices: Int32,
        data: Float32,
        n_features: int,
        label_indptr: Int64,
        labels: Int32,
        n_labels: int,
    ) -> None: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_labels(self) -> int: ...
    def count(self, rows: Int32, weight: Float32) -> tuple[Float32, Int32, Float32]: ...
    def features_of_codes(self, rows: Int32, weight: Float32, codes: Float32, means: Float32) -> Float32: ...
    def labels_of_features(
        self, rows: Int32, weight: Float32, features: Float32, means: Float32, with_moments: bool
    ) -> tuple[Float32, Float64 | None]: ...
    def sides_of_labels(
        self, rows: Int32, weight: Float32, weights: Float32, offset: float, mean: float, scale: float
    ) -> Float32: ...
    def gradient(
        self,
        rows: Int32,
        weight: Float32,
        votes: Float32,
        cost: float,
        weights: Float32,
        offset: float,
        with_diagonal: bool,
    ) -> tuple[Float32, Float32 | None]: ...
    def search(
        self,
        rows: Int32,
        weight: Float32,
        votes: Float32,
        cost: float,
        pairs: Float32,
        offset: tuple[float, float],
        mean: tuple[float, float],
        steps: Float32,
    ) -> Float64: ...
    def margins(self, rows: Int32, weight: Float32, weights: Float32) -> Float32: ...
    def right_mass(self, rows: Int32, weight: Float32, weights: Float32, bias: float, noise: float) -> float: ...
    def route(
        self,
        rows: Int32,
        weight: Float32,
        weights: Float32,
        bias: float,
        noise: float,
        key: int,
        first_row: int,
        prune_below: float,
    ) -> tuple[tuple[Int32, Float32], tuple[Int32, Float32]]: ...

class ForestScorer:
    def __init__(
        self,
        n_trees: int,
        child: Int32,
        bias: Float32,
        noise: Float32,
        router_indptr: Int64,
        router_indices: Int32,
        router_data: Float32,
        n_features: int,
        leaf_indptr: Int64,
        leaf_labels: Int32,
        leaf_shares: Float32,
        n_labels: int,
        n_threads: int = 1,
    ) -> None: ...
    @staticmethod
    def from_tables(
        n_trees: int,
        n_features: int,
        n_labels: int,
        blocks: Int32,
        tables: Int64,
        buckets: Int32,
        dense: npt.NDArray[np.int8],
        leaf_begin: Int64,
        leaf_label: Int32,
        leaf_share: UInt16,
    ) -> ForestScorer: ...
    def tables(self) -> dict[str, npt.NDArray[Any]]: ...
    def routers(self) -> tuple[Int64, Int32, Float32]: ...
    def candidates(
        self,
        indptr: Int64,
        indices: Int32,
        data: Float32,
        k: int,
        smallest: float,
        noise_scale: float = 1.0,
        n_threads: int = 1,
    ) -> tuple[Int64, Int32, Float32]: ...
    def leaf_probabilities(
        self,
        indptr: Int64,
        indices: Int32,
        data: Float32,
        smallest: float,
        noise_scale: float = 1.0,
        n_threads: int = 1,
    ) -> tuple[Int64, Int32, Float32]: ...

class SparseTextParser:
    def __init__(
        self, header: bool | None = None, first_feature: int = 0, n_features: int = -1, n_labels: int = -1
    ) -> None: ...
    def feed(self, piece: npt.NDArray[np.uint8]) -> bool: ...
    def finish(self) -> bool: ...
    def take(self) -> tuple[Int64, Int32, Float32, Int64, Int32]: ...
    @property
    def error(self) -> tuple[int, str, bytes] | None: ...
    @property
    def line(self) -> int: ...
    @property
    def had_header(self) -> bool: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_labels(self) -> int: ...
    @property
    def smallest_feature(self) -> int: ...

def format_sparse_text(
    label_indptr: Int64, labels: Int32, indptr: Int64, indices: Int32, data: Float32, first_feature: int = 0
) -> bytes: ...

class HashOptions:
    def __init__(
        self,
        analyzer: str,
        ngram_range: tuple[int, int],
        bits: int,
        n_hashes: int,
        is_signed: bool,
        fold: bool,
        min_word_length: int,
    ) -> None: ...

def texts_to_fold(utf8: bytes, offsets: Int64) -> list[int]: ...
def hash_texts(
    utf8: bytes, offsets: Int64, options: HashOptions, n_threads: int = 1
) -> tuple[Int64, Int32, Float32]: ...

class TextWeigher:
    def __init__(self, options: HashOptions, of_count: Float32, idf: Float32) -> None: ...
    def rows(self, texts: list[str], are_folded: bool, n_threads: int = 1) -> tuple[Int64, Int32, Float32] | None: ...

class TokenTable:
    def __init__(self) -> None: ...
    def add(self, utf8: bytes, offsets: Int64, options: HashOptions) -> None: ...
    def names(self, options: HashOptions) -> list[tuple[int, str]]: ...

class _Trainer:
    label_bias: Float32
    slot_bias: Float32
    codes: Float32

class _SparseTrainer(_Trainer):
    def __init__(
        self,
        indptr: Int64,
        indices: Int32,
        n_labels: int,
        n_features: int,
        loss: str,
        label_weights: bool,
        slot_bias: bool,
        slot_weights: bool,
        n_codes: int,
    ) -> None: ...
    def train(
        self,
        indptr: Int64,
        indices: Int32,
        data: Float32,
        n_features: int,
        label_indptr: Int64,
        labels: Int32,
        offsets: Int64,
        leaves: Int32,
        rate: float,
        momentum: float,
        batch_size: int,
        group_penalty: float,
        n_threads: int = 1,
    ) -> float: ...

class TableTrainer(_SparseTrainer):
    def weights(self) -> Float32: ...
    def take_weights(self) -> Float32: ...
    def start(self, weights: Float32) -> None: ...

class TouchedTrainer(_SparseTrainer):
    def weights(self) -> tuple[Int64, Int32, Float32]: ...
    def slot_weights(self) -> tuple[Int64, Int32, Float32]: ...
    def take_weights(self) -> tuple[Int64, Int32, Float32]: ...
    def take_slot_weights(self) -> tuple[Int64, Int32, Float32]: ...
    def start(self, indptr: Int64, indices: Int32, data: Float32) -> None: ...
    def start_slots(self, indptr: Int64, indices: Int32, data: Float32) -> None: ...

class DenseTrainer(_Trainer):
    def __init__(
        self,
        indptr: Int64,
        indices: Int32,
        n_labels: int,
        width: int,
        loss: str,
        label_weights: bool,
        slot_bias: bool,
        slot_weights: bool,
        n_codes: int,
    ) -> None: ...
    def train(
        self,
        X: Float32,
        label_indptr: Int64,
        labels: Int32,
        offsets: Int64,
        leaves: Int32,
        rate: float,
        momentum: float,
        batch_size: int,
        group_penalty: float,
        n_threads: int = 1,
    ) -> float: ...
    def set_embedding(self, initial: Float32) -> None: ...
    def train_embedded(
        self,
        indptr: Int64,
        indices: Int32,
        data: Float32,
        label_indptr: Int64,
        labels: Int32,
        offsets: Int64,
        leaves: Int32,
        rate: float,
        momentum: float,
        batch_size: int,
        group_penalty: float,
        n_threads: int = 1,
    ) -> float: ...
    def start(self, weights: Float32) -> None: ...
    def start_slots(self, weights: Float32) -> None: ...
    def weights(self) -> Float32: ...
    def slot_weights(self) -> Float32: ...
    def embedding(self) -> Float32: ...

class LinearHead:
    def __init__(self, indptr: Int64, indices: Int32, n_labels: int, slot_bias: Float32) -> None: ...
    def set_dense(self, weights: Float32, by_slot: bool, code_shift: int) -> None: ...
    def set_sparse(
        self, indptr: Int64, indices: Int32, data: Float32, width: int, by_slot: bool, code_shift: int
    ) -> None: ...
    def set_codes(self, codes: Float32) -> None: ...
    def set_dense_deviations(self, weights: Float32) -> None: ...
    def set_sparse_deviations(self, indptr: Int64, indices: Int32, data: Float32, width: int) -> None: ...
    def scores_csr(
        self, indptr: Int64, indices: Int32, data: Float32, leaves: Int32, n_threads: int = 1
    ) -> Float32: ...
    def scores_dense(self, X: Float32, leaves: Int32, n_threads: int = 1) -> Float32: ...
    def top_k_csr(
        self, indptr: Int64, indices: Int32, data: Float32, leaves: Int32, k: int, n_threads: int = 1
    ) -> tuple[Int32, Float32]: ...
    def top_k_dense(self, X: Float32, leaves: Int32, k: int, n_threads: int = 1) -> tuple[Int32, Float32]: ...

CsrArrays: TypeAlias = tuple[Int64, Int32, Float32]

class OneVsRestSettings:
    def __init__(
        self,
        cost: float,
        positive_weight: float,
        rare_examples: float,
        tolerance: float,
        passes: int,
        drop: float,
        seed: int,
        first_cluster: int = ...,
    ) -> None: ...

def fit_one_vs_rest(
    indptr: Int64,
    indices: Int32,
    data: Float32,
    n_features: int,
    label_indptr: Int64,
    labels: Int32,
    n_labels: int,
    candidate_indptr: Int64,
    candidates: Int32,
    held_out: npt.NDArray[np.uint8],
    row_weight: Float32,
    start_indptr: Int64,
    start_indices: Int32,
    start_data: Float32,
    start_bias: Float32,
    first_label: int,
    end_label: int,
    settings: OneVsRestSettings,
    n_threads: int = 1,
    counter: Counter | None = None,
) -> tuple[CsrArrays, Float32, CsrArrays]: ...
def candidate_scores(
    indptr: Int64,
    indices: Int32,
    data: Float32,
    n_features: int,
    weight_indptr: Int64,
    weight_labels: Int32,
    weights: Float32,
    bias: Float32,
    candidate_indptr: Int64,
    candidates: Int32,
    n_threads: int = 1,
) -> Float32: ...
def label_sums(
    indptr: Int64,
    indices: Int32,
    data: Float32,
    n_features: int,
    label_indptr: Int64,
    labels: Int32,
    n_labels: int,
    weight: Float32,
    n_threads: int = 1,
) -> CsrArrays: ...
def label_centroids(
    indptr: Int64,
    indices: Int32,
    data: Float32,
    n_columns: int,
    label_indptr: Int64,
    labels: Int32,
    n_labels: int,
    weight: Float32,
    start_indptr: Int64,
    start_indices: Int32,
    start_data: Float32,
    n_features: int,
    n_threads: int = 1,
) -> tuple[CsrArrays, Float64]: ...
def cut_centroids(
    indptr: Int64, indices: Int32, data: Float32, norms: Float64, n_features: int, n_threads: int = 1
) -> CsrArrays: ...
def mean_rows(
    indptr: Int64,
    indices: Int32,
    data: Float32,
    n_columns: int,
    n_rows: int,
    shares: Float32,
    drop: float,
    n_threads: int = 1,
) -> CsrArrays: ...
def sorted_rows(
    indptr: Int64, indices: Int32, data: Float32, n_columns: int, n_threads: int = 1
) -> tuple[Int32, Float32, bool]: ...
def gathered_rows(
    indptr: Int64, indices: Int32, data: Float32, n_columns: int, rows: Int64, n_threads: int = 1
) -> CsrArrays: ...
def vectors_in_bytes(vectors: Float32, n_threads: int = 1) -> tuple[npt.NDArray[np.int8], Float32]: ...
def space_lists(
    labels: npt.NDArray[np.int8], scale: Float32, usual_labels: int, seed: int, n_threads: int = 1
) -> Int32: ...
def round_to_half(values: Float32, n_threads: int = 1) -> Float32: ...
def cluster_labels(
    indptr: Int64,
    indices: Int32,
    data: Float32,
    n_features: int,
    n_clusterings: int,
    most_labels: int,
    seed: int,
    n_threads: int = 1,
) -> tuple[Int32, int]: ...
def label_classes(
    indptr: Int64, labels: Int32, clusters: Int32, n_clusters: int, n_threads: int = 1
) -> tuple[Int64, Int32]: ...
def candidate_classes(
    indptr: Int64,
    candidates: Int32,
    label_indptr: Int64,
    labels: Int32,
    n_seen: int,
    clusters: Int32,
    n_clusters: int,
    n_threads: int = 1,
) -> tuple[Int64, Int32]: ...
def strongest_examples(
    indptr: Int64, indices: Int32, data: Float32, n_features: int, longest: int, n_threads: int = 1
) -> tuple[Int64, Int32, Float32]: ...

class NearExamples:
    def __init__(
        self, begin: Int64, example: Int32, value: UInt16, label_begin: Int64, label: Int32, weight: Float32
    ) -> None: ...
    def votes(
        self,
        indptr: Int64,
        indices: Int32,
        data: Float32,
        candidate_indptr: Int64,
        candidates: Int32,
        n_labels: int,
        n_threads: int = 1,
    ) -> Float32: ...

def symmetric_eigen(matrix: Float64) -> tuple[Float64, Float64]: ...
def sums_through_rows(
    indptr: Int64,
    indices: Int32,
    data: Float32,
    to_indptr: Int64,
    to_indices: Int32,
    to_data: Float32,
    n_columns: int,
    weight: Float32,
    vectors: Float32,
    unit: bool,
    n_threads: int = 1,
) -> Float32: ...
def learn_space(
    indptr: Int64,
    indices: Int32,
    data: Float32,
    label_indptr: Int64,
    own: Int32,
    weight: Float32,
    candidate_indptr: Int64,
    candidates: Int32,
    labels: Float32,
    features: Float32,
    squares: Float32,
    pass_: int,
    n_passes: int,
    rate: float,
    scale: float,
    seed: int,
    n_threads: int = 1,
    counter: Counter | None = None,
) -> None: ...

class LabelSpace:
    def __init__(
        self,
        features: npt.NDArray[np.int8],
        feature_scale: Float32,
        labels: npt.NDArray[np.int8],
        label_scale: Float32,
        list_of_label: Int32,
    ) -> None: ...
    def cosines(
        self,
        indptr: Int64,
        indices: Int32,
        data: Float32,
        candidate_indptr: Int64,
        candidates: Int32,
        n_threads: int = 1,
    ) -> Float32: ...
    def sieved(
        self,
        indptr: Int64,
        indices: Int32,
        data: Float32,
        candidate_indptr: Int64,
        candidates: Int32,
        n_near: int,
        n_kept: int,
        n_threads: int = 1,
        most_lists: int = 16,
    ) -> tuple[Int64, Int32]: ...

class Predictor:
    def __init__(
        self,
        forest: ForestScorer,
        lists: Int64,
        list_labels: Int32,
        pairs: UInt32,
        words: UInt32,
        near_begin: Int64,
        near_label: Int32,
        near_cosine: UInt16,
        vote_begin: Int64,
        vote_label: Int32,
        vote_share: UInt16,
        clusters: Int32,
        bias: Float32,
        prior: Float32,
        examples: NearExamples | None,
        space: LabelSpace | None,
        *,
        head_weight: float,
        forest_weight: float,
        centroid_weight: float,
        unreached_weight: float,
        clusters_weight: float,
        examples_weight: float,
        space_weight: float,
        forest_candidates: int,
        centroid_candidates: int,
        vote_candidates: int,
        space_candidates: int,
        kept_candidates: int,
        unit_rows: bool,
        strong_features: int,
    ) -> None: ...
    @staticmethod
    def tables_of(
        centroid_indptr: Int64,
        centroid_indices: Int32,
        centroid_data: Float32,
        head_indptr: Int64,
        head_indices: Int32,
        head_data: Float32,
        norms: Float64,
        n_features: int,
        longest_list: int,
        longest_vote_list: int,
        by_label: bool = False,
        n_threads: int = 1,
    ) -> dict[str, npt.NDArray[Any]]: ...
    def weights(self) -> tuple[Int64, Int32, Float32, Float32]: ...
    def predict(
        self,
        indptr: Int64,
        indices: Int32,
        data: Float32,
        k: int,
        smallest: float,
        allowed: UInt8,
        n_threads: int = 1,
    ) -> tuple[Int32, Float32]: ...
    def predict_texts(
        self, weigher: TextWeigher, texts: list[str], k: int, smallest: float, n_threads: int = 1
    ) -> tuple[Int32, Float32] | None: ...
    def predict_row(self, indices: Int32, data: Float32, smallest: float, labels: Int32, scores: Float32) -> None: ...
    def find(
        self,
        indptr: Int64,
        indices: Int32,
        data: Float32,
        smallest: float,
        noise_scale: float = 1.0,
        n_threads: int = 1,
        scored: bool = True,
    ) -> tuple[Int64, Int32, Float32, Float32, Float32]: ...
    def score_candidates(
        self,
        indptr: Int64,
        indices: Int32,
        data: Float32,
        candidate_indptr: Int64,
        candidates: Int32,
        smallest: float,
        n_threads: int = 1,
    ) -> tuple[Float32, Float32, Float32, Float32, Float32, Float32, Float32]: ...

def use_scratch(folder: str) -> None: ...
def use_array_memory() -> object: ...
def restore_array_memory(before: object) -> None: ...
def taken_scratch_error() -> int: ...
def scratch_bytes() -> int: ...
def softmax_likelihood(
    indptr: Int64, features: Float64, share: Float64, weights: Float64, any_label: bool, n_threads: int
) -> tuple[float, Float64, Float64, Float64]: ...
def logistic_likelihood(
    features: Float64, is_true: npt.NDArray[np.bool_], weights: Float64
) -> tuple[float, Float64, Float64]: ...
def best_candidates(indptr: Int64, features: Float64, weights: Float64, n_best: int, n_threads: int) -> Int64: ...
