"""How large our objects are, for Dask, which otherwise counts neither sparse arrays nor models."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp
from dask.sizeof import sizeof

from labelprism.filters import SpectralForest
from labelprism.recipe_model import DefaultRecipe


def size_of(value: Any) -> int:
    """Return the bytes of a value, of all that is in a list of them too."""
    return int(sizeof(value))


def _size_of_sparse_array(array: Any) -> int:
    return int(sum(array.__dict__[name].nbytes for name in ("indptr", "indices", "data") if name in array.__dict__))


def _size_of_recipe(recipe: DefaultRecipe) -> int:
    return int(sum(array.nbytes for array in recipe.arrays.values()))


def _size_of_forest(forest: SpectralForest) -> int:
    learned = (value for name, value in vars(forest).items() if name.endswith("_"))
    return sum(size_of(value) for value in learned)


# Dask asks by type, on every worker that has loaded this module.
sizeof.register(sp.sparray, _size_of_sparse_array)
sizeof.register(DefaultRecipe, _size_of_recipe)
sizeof.register(SpectralForest, _size_of_forest)
