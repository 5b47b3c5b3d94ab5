"""Reduction of vectors: cosines are nearly preserved, and no basis is fitted on too few vectors."""

from __future__ import annotations

import numpy as np
import pytest

from app.domain.text.embedding_input import normalise_rows
from app.domain.tiers import pca
from app.domain.tiers.pca import Vectors


def cloud(count: int, dimensions: int = 256, inner: int = 100, seed: int = 1) -> Vectors:
    """Return unit vectors around a common direction, with most of their variance in a subspace."""
    random = np.random.default_rng(seed)
    axes = np.random.default_rng(0).normal(size=(inner, dimensions))
    noise = 0.05 * random.normal(size=(count, dimensions))
    return normalise_rows((random.normal(size=(count, inner)) @ axes / np.sqrt(inner) + 0.5 + noise).astype(np.float32))


def test_inner_products_are_the_cosines_of_the_whole_ones() -> None:
    basis = pca.fit_basis(cloud(1000))
    assert basis is not None
    vectors, queries = cloud(200, seed=2), cloud(20, seed=3)
    short = pca.reduce_vectors(basis, vectors)
    assert short.shape == (200, 128)
    np.testing.assert_allclose(pca.reduce_vectors(basis, queries) @ short.T, queries @ vectors.T, atol=0.02)
    assert 0.95 < basis.variance_kept < 1
    assert basis.samples == 1000
    np.testing.assert_allclose(basis.matrix @ basis.matrix.T, np.eye(128), atol=1e-5)


def test_what_is_kept_is_told_of_vectors_that_it_wasnt_fitted_on() -> None:
    basis = pca.fit_basis(cloud(1000))
    assert basis is not None
    kept = pca.variance_kept(basis.matrix, basis.mean, cloud(1000, seed=9))
    assert kept == pytest.approx(basis.variance_kept, abs=0.01)
    random = np.random.default_rng(4)
    noise = pca.fit_basis(normalise_rows(random.normal(size=(300, 1024)).astype(np.float32)))
    assert noise is not None
    assert noise.variance_kept < 0.3, "128 directions overfit 300 vectors and retain little of others"


@pytest.mark.parametrize(("count", "dimensions"), [(255, 256), (1000, 128), (1000, 64), (0, 256)])
def test_too_few_or_too_short_vectors_give_no_basis(count: int, dimensions: int) -> None:
    assert pca.fit_basis(cloud(count, dimensions)) is None


def test_vectors_without_a_direction_dont_count() -> None:
    sample = cloud(260)
    sample[:3], sample[3:5] = 0, np.nan
    assert pca.fit_basis(sample) is None
    assert pca.fit_basis(np.concatenate([sample, cloud(1, seed=5)])) is not None


def test_vectors_of_another_length_are_refused() -> None:
    basis = pca.fit_basis(cloud(300))
    assert basis is not None
    with pytest.raises(ValueError, match="64 dimensions"):
        pca.reduce_vectors(basis, cloud(1, 64))


def test_nobody_makes_up_more_than_a_tenth_of_a_sample() -> None:
    subjects = ["ann"] * 4000 + ["bob", None] * 3000
    places = pca.draw_sample(subjects)
    drawn = [subjects[place] for place in places]
    assert (drawn.count("ann"), drawn.count("bob")) == (500, 500)
    assert len(places) == 4000
    assert len(pca.draw_sample([None] * 9000)) == pca.SAMPLES_MAX
