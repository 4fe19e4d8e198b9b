"""The sentence tokenizer that Annif's analyzers want from NLTK, without a download.

Annif fetches NLTK's "punkt_tab" from the network when an analyzer is first used. Words are split by rules; Punkt only
tells ends of sentences from abbreviations before that. So where there is no network, one that knows no abbreviations
will do: NLTK's own parameters, with nothing learned.
"""

from __future__ import annotations

from pathlib import Path

from nltk.tokenize.punkt import PunktParameters, save_punkt_params


def write_untrained(nltk_data: Path, language: str = "english") -> None:
    """Write an untrained sentence tokenizer to where NLTK looks for it.

    Parameters
    ----------
    nltk_data : Path
        A folder for the environment variable NLTK_DATA.
    language : str
    """
    folder = nltk_data / "tokenizers" / "punkt_tab"
    folder.mkdir(parents=True, exist_ok=True)
    save_punkt_params(PunktParameters(), str(folder / language))
