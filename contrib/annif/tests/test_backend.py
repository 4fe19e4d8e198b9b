"""The backend in the process of the tests, by Annif's own classes."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest
from annif.corpus import Document, DocumentList, SubjectSet
from annif.exception import (
    ConfigurationException,
    NotEnabledException,
    NotInitializedException,
    NotSupportedException,
    OperationFailedException,
)
from conftest import NEW_SUBJECT, SUBJECTS, documents, names


def test_suggestions_are_probabilities_that_fall(trained):
    project = trained.registry().get_project("plain")
    texts = ["ships and horses", "a castle", "", "qwertz", "ship ship ship"]
    batch = project.suggest([Document(text=text) for text in texts])
    assert batch.array.shape == (5, len(SUBJECTS) + 1)
    assert batch.array.dtype == np.float32
    for row, text in enumerate(texts):
        scores = [suggestion.score for suggestion in batch[row]]
        assert all(0 < score <= 1 for score in scores), text
        assert len(set(scores)) == len(scores), "Annif would rank equal ones by their number"
    assert len(batch[2]) == 0
    best = next(iter(batch[1]))
    assert project.subjects[best.subject_id].labels["en"] == "castle"


def test_a_batch_has_what_its_documents_have_alone(trained):
    project = trained.registry().get_project("plain")
    texts = [f"{subject}s at night" for subject in SUBJECTS]
    together = project.suggest([Document(text=text) for text in texts])
    for row, text in enumerate(texts):
        alone = project.suggest([Document(text=text)])
        assert np.array_equal(together.array[[row]].toarray(), alone.array.toarray())


def test_scores_are_the_probabilities_of_the_model(trained):
    project = trained.registry().get_project("plain")
    texts = ["ships and horses", "an old castle"]
    batch = project.suggest([Document(text=text) for text in texts])
    analysed = [project.backend.analysed(text) for text in texts]
    labels, likely = project.backend._model.predict_topk_proba(analysed, 5)
    for row in range(2):
        found = list(batch[row])[:5]
        assert [suggestion.subject_id for suggestion in found] == labels[row].tolist()
        assert [suggestion.score for suggestion in found] == pytest.approx(likely[row].tolist(), rel=1e-4)


def test_no_documents(trained):
    assert len(trained.registry().get_project("plain").suggest([])) == 0


def test_the_analyzer_is_honoured(workshop):
    """All documents have plurals; only stems tell that the singular is the same word."""
    found = {}
    for name in ("plain", "unanalysed"):
        project = workshop.registry().get_project(name)
        project.train(documents(project, workshop.train))
        found[name] = [names(project, subject)[:1] == [subject] for subject in SUBJECTS]
        assert names(project, "horses")[0] == "horse"
    assert all(found["plain"])
    assert sum(found["unanalysed"]) <= 4


def test_limit(trained):
    project = trained.registry().get_project("plain")
    assert len(names(project, "ships and horses", limit="2")) == 2
    with pytest.raises(ConfigurationException, match="limit must be a whole number from 1"):
        names(project, "ships", limit="many")


def test_other_parameters_reach_the_model(workshop):
    project = workshop.registry().get_project("fast")
    project.train(documents(project, workshop.train), jobs=1)
    assert names(project, "ships and storms")[:2] in (["ship", "storm"], ["storm", "ship"])
    assert len(names(project, "ships and storms")) == 3
    model = project.backend._model
    assert (model.preset, model.objective) == ("fast", "propensity")
    assert (model.features_.words, model.features_.n_bits, model.features_.weighting) == ((1, 2), 16, "hellinger")
    assert model.n_jobs == 2


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("objective", "recall", "one of precision, propensity"),
        ("ngram", "0", "a whole number from 1 to 5"),
        ("ngram", "two", "a whole number from 1 to 5"),
        ("bits", "99", "a whole number from 10 to 24"),
        ("weighting", "bm25", "one of tfidf, hellinger, none"),
        ("random_state", "-1", "a whole number from 0"),
        ("n_jobs", "1.5", "a whole number from 0"),
    ],
)
def test_wrong_parameters_are_named_before_anything_is_written(workshop, name, value, expected):
    project = workshop.registry().get_project("plain")
    with pytest.raises(ConfigurationException) as raised:
        project.train(documents(project, workshop.train), {"labelprism": {name: value}})
    assert f"{name} must be {expected}" in raised.value.format_message()
    assert "'plain'" in raised.value.format_message()
    assert not project.is_trained


def test_unknown_parameters_are_warned_of(workshop, caplog):
    project = workshop.registry().get_project("plain")
    project.train(documents(project, workshop.train), {"labelprism": {"min_df": "5"}})
    assert "there is no parameter 'min_df'" in caplog.text
    assert caplog.text.count("there is no parameter") == 1


def test_same_model_for_every_number_of_jobs(workshop):
    project = workshop.registry().get_project("plain")
    found = []
    for jobs in (1, 2):
        project.train(documents(project, workshop.train), jobs=jobs)
        found.append(project.suggest([Document(text="ships in storms")]).array.toarray())
    assert np.array_equal(*found)


def test_train_data_alone_are_no_model(workshop):
    project = workshop.registry().get_project("plain")
    project.backend._write_train_file(documents(project, workshop.train))
    assert not project.is_trained
    project.train("cached")
    assert project.is_trained
    assert project.modification_time is not None


@pytest.mark.parametrize(
    "corpus",
    [
        [],
        [Document(text="ships")],
        [Document(text="", subject_set=SubjectSet([0]))],
        [Document(text="1 2 ...", subject_set=SubjectSet([0]))],
    ],
    ids=["none", "no subjects", "no text", "no words"],
)
def test_nothing_to_train_or_learn_from(workshop, trained, corpus):
    project = workshop.registry().get_project("plain")
    with pytest.raises(NotSupportedException, match="with no documents"):
        project.train(DocumentList(corpus))
    assert not project.is_trained
    with pytest.raises(NotInitializedException, match="train data file"):
        project.train("cached")
    with pytest.raises(NotSupportedException, match="with no documents"):
        trained.registry().get_project("plain").learn(DocumentList(corpus))


def test_one_document_is_enough(workshop):
    project = workshop.registry().get_project("plain")
    project.train(DocumentList([Document(text="ships", subject_set=SubjectSet([0]))]))
    assert names(project, "ships") == ["ship"]


def test_texts_of_all_kinds(workshop):
    """TAB and line ends, which our file of texts could not hold, halves of surrogate pairs, other scripts."""
    project = workshop.registry().get_project("unanalysed")
    texts = ["a\tb\nc\r\nd\x85e\u2028f", "\ud800 half", "корабль 船", "nul\x00byte"]
    project.train(DocumentList([Document(text=text, subject_set=SubjectSet([row])) for row, text in enumerate(texts)]))
    assert names(project, "корабль")[0] == SUBJECTS[2]
    assert names(project, "\ud800 half")[0] == SUBJECTS[1]


# ------------------------------------------------------------------------------------------------------------- learning


def test_learning(workshop):
    project = workshop.registry().get_project("plain")
    project.train(documents(project, workshop.train))
    assert NEW_SUBJECT not in names(project, "lighthouses")
    project.learn(documents(project, workshop.new))
    assert names(project, "lighthouses")[0] == NEW_SUBJECT
    assert names(project, "castles")[0] == "castle"
    again = workshop.registry().get_project("plain")
    assert names(again, "lighthouses") == names(project, "lighthouses")


def test_learning_errors(workshop, trained):
    project = workshop.registry().get_project("untrained")
    with pytest.raises(NotInitializedException, match="not found"):
        project.learn(documents(project, workshop.new))
    project = workshop.registry().get_project("fast")
    with pytest.raises(NotEnabledException):
        project.learn(documents(project, workshop.new))
    with pytest.raises(NotSupportedException, match="cached"):
        trained.registry().get_project("plain").backend.learn("cached")


def test_learning_new_subjects_of_a_vocabulary_that_grew(workshop):
    from annif.vocab import VocabFileTSV

    project = workshop.registry().get_project("plain")
    project.train(documents(project, workshop.train))
    with workshop.vocabulary.open("a", encoding="utf-8") as file:
        file.write("<http://example.org/anchor>\tanchor\n")
    workshop.registry().get_vocab("things").load_vocabulary(VocabFileTSV(str(workshop.vocabulary), "en"))
    project = workshop.registry().get_project("plain")
    assert names(project, "ships")[0] == "ship"
    number = project.subjects.by_uri("http://example.org/anchor")
    corpus = [Document(text="heavy anchors", subject_set=SubjectSet([number])) for _ in range(5)]
    project.learn(DocumentList(corpus))
    assert names(project, "an anchor")[0] == "anchor"


# ------------------------------------------------------------------------------------------- vocabularies and processes


def test_excluded_subjects_are_not_suggested(workshop):
    open_project = workshop.registry().get_project("plain")
    open_project.train(documents(open_project, workshop.train))
    narrow = workshop.registry().get_project("narrow")
    open_project.backend._model.save(narrow.backend._path(narrow.backend.MODEL_FILE))
    assert "ship" in names(open_project, "ships and horses")
    assert "ship" not in names(narrow, "ships and horses")


def test_a_vocabulary_that_was_replaced(workshop):
    from annif.vocab import VocabFileTSV

    project = workshop.registry().get_project("plain")
    project.train(documents(project, workshop.train))
    workshop.vocabulary.write_text("<http://example.org/ship>\tship\n", encoding="utf-8")
    vocabulary = workshop.registry().get_vocab("things")
    vocabulary.load_vocabulary(VocabFileTSV(str(workshop.vocabulary), "en"), force=True)
    project = workshop.registry().get_project("plain")
    with pytest.raises(OperationFailedException, match="retrain"):
        names(project, "ships")
    with pytest.raises(OperationFailedException, match="vocabulary"):
        project.train("cached")


def test_a_damaged_model(workshop):
    project = workshop.registry().get_project("plain")
    project.train(documents(project, workshop.train))
    meta = project.backend._path(project.backend.MODEL_FILE) / "meta.json"
    meta.write_text("{}", encoding="utf-8")
    with pytest.raises(OperationFailedException, match=r"cannot be loaded.*retrain"):
        names(workshop.registry().get_project("plain"), "ships")


def test_a_trained_ensemble_on_top(trained):
    registry = trained.registry()
    for name in ("tfidf", "pav"):
        project = registry.get_project(name)
        project.train(documents(project, trained.train), jobs=1)
    assert names(registry.get_project("both"), "castles")[0] == "castle"
    assert "castle" in names(registry.get_project("pav"), "castles")[:3]


def test_the_model_is_shared_by_forked_processes(trained):
    project = trained.registry().get_project("plain")
    project.initialize(parallel=True)
    first = _First(project)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map(first, ["ships", "castles"])
    assert found == ["ship", "castle"]


class _First:
    """The best subject of a text; forked processes have the project already."""

    project = None

    def __init__(self, project):
        _First.project = project

    def __call__(self, text):
        return names(_First.project, text)[0]
