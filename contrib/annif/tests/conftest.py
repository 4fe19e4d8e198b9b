"""A vocabulary, corpora and projects of Annif, made anew for each run of the tests."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import punkt

# fmt: off
SUBJECTS = [
    "ship", "horse", "castle", "river", "bridge", "tower", "garden", "flower", "mountain", "storm", "forest", "angel",
    "portrait", "soldier", "village", "market", "church", "harbour", "island", "valley", "window", "mirror", "candle",
    "ladder",
]
# fmt: on
NEW_SUBJECT = "lighthouse"
FILLERS = ["large", "small", "old", "quiet", "distant", "painted", "early", "late", "broken", "bright"]

PROJECTS = """
[plain]
name=The default
language=en
backend=labelprism
vocab=things
analyzer=snowball(english)
allow_learn=True

[fast]
name=Other parameters
language=en
backend=labelprism
vocab=things
analyzer=snowball(english)
preset=fast
objective=propensity
ngram=2
bits=16
weighting=hellinger
limit=3
random_state=7
n_jobs=2
transform=limit(2000)

[unanalysed]
name=No analyzer
language=en
backend=labelprism
vocab=things

[untrained]
name=Never trained
language=en
backend=labelprism
vocab=things
analyzer=snowball(english)
allow_learn=True

[wrong]
name=A value that does not exist
language=en
backend=labelprism
vocab=things
analyzer=snowball(english)
preset=slow

[narrow]
name=A subject is excluded
language=en
backend=labelprism
vocab=things(exclude=http://example.org/ship)
analyzer=snowball(english)

[tfidf]
name=A backend of Annif itself
language=en
backend=tfidf
vocab=things
analyzer=snowball(english)

[both]
name=An ensemble
language=en
backend=ensemble
sources=plain:2,tfidf:1
vocab=things

[pav]
name=A trained ensemble
language=en
backend=pav
sources=plain,tfidf
vocab=things
min-docs=2
"""


def uri(subject: str) -> str:
    """Return the URI of a subject of the vocabulary."""
    return f"http://example.org/{subject}"


def write_corpus(path: Path, n_documents: int, seed: int, subjects: list[str]) -> Path:
    """Write documents that name their subjects, in the plural, among other words."""
    drawn = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(n_documents):
            own = drawn.sample(subjects, drawn.choice([1, 2, 2, 3]))
            words = [f"{drawn.choice(FILLERS)} {subject}s" for subject in own]
            file.write(f"{' and '.join(words)}.\t{' '.join(f'<{uri(subject)}>' for subject in own)}\n")
    return path


class Workshop:
    """A folder with all that Annif needs.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.datadir = folder / "data"
        self.projects = folder / "projects.cfg"
        self.projects.write_text(PROJECTS, encoding="utf-8")
        self.vocabulary = folder / "things.tsv"
        names = [*SUBJECTS, NEW_SUBJECT]
        self.vocabulary.write_text("".join(f"<{uri(name)}>\t{name}\n" for name in names), encoding="utf-8")
        self.train = write_corpus(folder / "train.tsv", 400, 1, SUBJECTS)
        self.test = write_corpus(folder / "test.tsv", 50, 2, SUBJECTS)
        self.new = write_corpus(folder / "new.tsv", 40, 3, [NEW_SUBJECT, "ship", "storm"])
        self.empty = folder / "empty.tsv"
        self.empty.touch()
        punkt.write_untrained(folder / "nltk")

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a program."""
        settings = {"ANNIF_DATADIR": self.datadir, "ANNIF_PROJECTS": self.projects, "NLTK_DATA": self.folder / "nltk"}
        unset = {name: value for name, value in os.environ.items() if not name.startswith(("ANNIF", "FLASK"))}
        return {**unset, **{name: str(value) for name, value in settings.items()}, **more}

    def annif(self, *arguments: Any, stdin: str = "", code: int = 0) -> str:
        """Run the program `annif` as a user does; return all that it says."""
        result = subprocess.run(
            [Path(sys.executable).with_name("annif"), *map(str, arguments)],
            env=self.environment(ANNIF_CONFIG="annif_labelprism.config.Config"),
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=900,
            check=False,
        )
        assert result.returncode == code, result.stdout + result.stderr
        return result.stdout + result.stderr

    def registry(self, projects: str | None = None) -> Any:
        """Return the projects as Annif has them in a process of its own."""
        import annif_labelprism  # noqa: F401
        from annif.registry import AnnifRegistry

        path = self.projects
        if projects is not None:
            path = self.folder / "others.cfg"
            path.write_text(projects, encoding="utf-8")
        return AnnifRegistry(str(path), str(self.datadir), init_projects=False)

    def load_vocabulary(self) -> None:
        """Do what `annif load-vocab` does."""
        from annif.vocab import VocabFileTSV

        vocabulary = self.registry().get_vocab("things")
        vocabulary.load_vocabulary(VocabFileTSV(str(self.vocabulary), "en"))


@pytest.fixture(scope="session")
def make_workshop(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Workshop]:
    """Return what makes a workshop; NLTK of this process is told where its data are."""
    import nltk.data

    def make() -> Workshop:
        workshop = Workshop(tmp_path_factory.mktemp("annif"))
        nltk.data.path.insert(0, str(workshop.folder / "nltk"))
        return workshop

    return make


@pytest.fixture
def workshop(make_workshop: Callable[[], Workshop]) -> Workshop:
    """A workshop of a test's own, with its vocabulary loaded."""
    workshop = make_workshop()
    workshop.load_vocabulary()
    return workshop


@pytest.fixture(scope="module")
def trained(make_workshop: Callable[[], Workshop]) -> Workshop:
    """A workshop whose project "plain" is trained; for tests that change nothing."""
    workshop = make_workshop()
    workshop.load_vocabulary()
    project = workshop.registry().get_project("plain")
    project.train(documents(project, workshop.train))
    return workshop


def documents(project: Any, path: Path) -> Any:
    """Return a file as Annif's corpus."""
    from annif.corpus import DocumentFileTSV

    return DocumentFileTSV(str(path), project.subjects)


def names(project: Any, text: str, **parameters: Any) -> list[str]:
    """Return the names of the subjects that are suggested for a text, best first."""
    from annif.corpus import Document

    [result] = project.suggest([Document(text=text)], {"labelprism": parameters})
    return [project.subjects[suggestion.subject_id].labels["en"] for suggestion in result]
