"""The parameters of a project with our backend: defaults, and checks of what a configuration says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from annif.exception import ConfigurationException

DEFAULTS: dict[str, Any] = {
    "limit": 100,
    "preset": "default",
    "objective": "precision",
    "ngram": 1,
    "bits": 18,
    "weighting": "tfidf",
    "random_state": 0,
    "n_jobs": 0,
}

# Parameters of a backend come mixed with these of the project.
_OF_PROJECTS = {"name", "language", "backend", "analyzer", "transform", "vocab", "access", "allow_learn"}


def _choice(*choices: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return str(value)

    return check


def _whole(smallest: int, largest: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        expected = f"a whole number from {smallest} to {largest}"
        try:
            number = int(str(value))
        except ValueError:
            raise ValueError(expected) from None
        if not smallest <= number <= largest:
            raise ValueError(expected)
        return number

    return check


_MOST = 2**31 - 1
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "limit": _whole(1, _MOST),
    "preset": _choice("default", "accurate", "fast"),
    "objective": _choice("precision", "propensity"),
    "ngram": _whole(1, 5),
    "bits": _whole(10, 24),
    "weighting": _choice("tfidf", "hellinger", "none"),
    "random_state": _whole(0, _MOST),
    "n_jobs": _whole(0, 1024),
}


@dataclass(frozen=True)
class Parameters:
    """Checked parameters.

    Parameters
    ----------
    limit : int
        The largest number of suggestions for a document.
    preset : {"default", "accurate", "fast"}
        The recipe of `PrismClassifier`.
    objective : {"precision", "propensity"}
        What subjects are ranked for; "propensity" favours rare ones.
    ngram : int
        Features are words, and runs of up to so many words.
    bits : int
        They are hashed to 2**bits numbers.
    weighting : {"tfidf", "hellinger", "none"}
        How they are weighted.
    random_state : int
        The seed.
    n_jobs : int
        Threads. 0: all processors in training, one for suggestions.
    """

    limit: int
    preset: str
    objective: str
    ngram: int
    bits: int
    weighting: str
    random_state: int
    n_jobs: int

    @classmethod
    def checked(cls, given: Mapping[str, Any], project_id: str) -> Parameters:
        """Read what a configuration says, where numbers are strings.

        Parameters
        ----------
        given : mapping
            Parameters of the project among them; what is not known is left out.
        project_id : str
            For messages.

        Raises
        ------
        ConfigurationException
            If a value is not what its parameter takes.
        """
        values = {}
        for name, check in _CHECKS.items():
            value = given.get(name, DEFAULTS[name])
            try:
                values[name] = check(value)
            except ValueError as expected:
                message = f"{name} must be {expected}, got {value!r}"
                raise ConfigurationException(message, project_id=project_id) from None
        return cls(**values)


def unknown_names(given: Mapping[str, Any]) -> list[str]:
    """Return the names that are neither our parameters nor the project's, such as misspelt ones.

    Parameters
    ----------
    given : mapping
    """
    return sorted(set(given) - set(_CHECKS) - _OF_PROJECTS)
