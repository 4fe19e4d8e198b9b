"""What nodes hold, by recursion over dense counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelprism.explore import TreeView


def leaves_below(nodes: Any, node: int) -> list[int]:
    left = int(nodes.children[node])
    return [node] if left < 0 else leaves_below(nodes, left) + leaves_below(nodes, left + 1)


def naive_counts(view: TreeView) -> np.ndarray:
    """The counts of all labels in all nodes, dense."""
    dense = view.held.toarray()
    row_of_node = {node: row for row, node in enumerate(view.nodes.leaf_nodes.tolist())}
    return np.array(
        [
            np.sum([dense[row_of_node[leaf]] for leaf in leaves_below(view.nodes, node)], axis=0)
            for node in range(view.nodes.children.size)
        ]
    )
