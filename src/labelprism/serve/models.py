"""The models of a worker, and what happens when the folder of one is replaced."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

from labelprism.errors import ModelFormatError
from labelprism.serve.errors import RequestError
from labelprism.serve.served_model import ServedModel, identity

logger = logging.getLogger("labelprism")

_ATTEMPTS = 5


def load_whole(name: str, path: str, n_threads: int) -> ServedModel:
    """Return the model in a folder, all of it from the same save.

    A folder that is replaced while it is read gives some files of each; so it must be the same before and after.
    """
    for attempt in range(_ATTEMPTS):
        try:
            model = ServedModel(name, path, n_threads)
            if model.identity == identity(path):
                return model
        except (ModelFormatError, OSError):
            if attempt == _ATTEMPTS - 1:
                raise
    raise ModelFormatError("the folder is replaced again and again while it is read", path)


class ModelStore:
    """Models by name; each request takes the one that is there when its turn comes.

    Parameters
    ----------
    paths : mapping of str to str
        Folders.
    n_threads : int
    on_change : function of (ServedModel, ServedModel or None)
        Called with each model that is loaded, and the one that it replaces.
    on_failure : function of str
        Called with the name of a model that could not be loaded anew.
    """

    def __init__(
        self,
        paths: Mapping[str, str],
        n_threads: int,
        on_change: Callable[[ServedModel, ServedModel | None], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._n_threads = n_threads
        self._on_change, self._on_failure = on_change, on_failure
        self._models = {name: load_whole(name, path, n_threads) for name, path in paths.items()}
        self._refused: dict[str, tuple[int, int, int]] = {}
        for model in self._models.values():
            on_change(model, None)

    def __getitem__(self, name: str) -> ServedModel:
        model = self._models.get(name)
        if model is None:
            known = ", ".join(list(self._models)[:20])
            raise RequestError(404, "unknown_model", f"there is no model {name[:100]!r}; here are: {known}")
        return model

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(list(self._models.values()))

    async def watch(self, seconds: float) -> None:
        """Load models anew when their folders are replaced, until cancelled; requests go on meanwhile."""
        while True:
            await asyncio.sleep(seconds)
            for model in self:
                await self._renew(model)

    async def _renew(self, old: ServedModel) -> None:
        try:
            there = identity(old.path)
        except (ModelFormatError, OSError):  # moved away for a moment, or for good: the model at hand goes on
            return
        if there in (old.identity, self._refused.get(old.name)):
            return
        try:
            loop = asyncio.get_running_loop()
            fresh = await loop.run_in_executor(None, load_whole, old.name, old.path, self._n_threads)
        except Exception as error:  # noqa: BLE001 - whatever is in the folder, the model at hand goes on
            logger.error("%s: the new model is not taken, the old one goes on: %s", old.path, error)
            self._refused[old.name] = there
            self._on_failure(old.name)
            return
        self._models[old.name] = fresh
        self._on_change(fresh, old)
        logger.info("%s: version %s replaces %s", old.path, fresh.version, old.version)
