"""scikit-learn and SciPy on treadle's tensors, through their dispatch on the Array API.

    SCIPY_ARRAY_API=1 python tests/array_api/consumers.py

SciPy reads that variable when it is imported, so this is a program of its own. Each case runs on
NumPy arrays and on tensors; it prints, as JSON, what went wrong with each: "" is nothing.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings

import numpy as np

RNG = np.random.default_rng(11)
X = RNG.normal(size=(48, 5)) * [1.0, 2.0, 0.5, 3.0, 1.0] + [0.0, 1.0, 0.0, -2.0, 4.0]
Y = np.arange(48) % 3
X[Y == 1] += 1.5
TARGET = X @ [1.0, -2.0, 0.5, 0.0, 3.0] + 0.1 * RNG.normal(size=48)
GUESS = TARGET + 0.3 * RNG.normal(size=48)
LABELS = np.where(RNG.random(48) < 0.2, (Y + 1) % 3, Y)
SHARE = RNG.random(48)


def estimator(make, *methods, target=None, outputs=()):
    """Fit `make()`, then each method on the data, and the attributes that it learned."""

    def case(of):
        model = make()
        model.fit(of(X)) if target is None else model.fit(of(X), of(target))
        found = [getattr(model, method)(of(X)) for method in methods]
        return found + [getattr(model, name) for name in outputs]

    return case


def sklearn_cases():
    from sklearn import metrics
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.metrics import pairwise
    from sklearn.mixture import GaussianMixture
    from sklearn.model_selection import cross_val_score, train_test_split
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import (
        LabelEncoder,
        MaxAbsScaler,
        MinMaxScaler,
        Normalizer,
        PolynomialFeatures,
        StandardScaler,
    )

    def regression(name):
        return lambda of: getattr(metrics, name)(of(TARGET), of(GUESS))

    def classification(name, **options):
        return lambda of: getattr(metrics, name)(of(Y), of(LABELS), **options)

    def kernel(name):
        return lambda of: getattr(pairwise, name)(of(X), of(X[:7] + 0.5))

    def split(of):
        parts = train_test_split(of(X), of(Y), test_size=0.25, random_state=0)
        model = make_pipeline(StandardScaler(), LinearDiscriminantAnalysis())
        return [*parts, model.fit(parts[0], parts[2]).predict(parts[1])]

    cases = {
        "StandardScaler": estimator(
            StandardScaler, "transform", "inverse_transform", outputs=("mean_", "scale_")
        ),
        "MinMaxScaler": estimator(MinMaxScaler, "transform", "inverse_transform"),
        "MaxAbsScaler": estimator(MaxAbsScaler, "transform", outputs=("scale_",)),
        "Normalizer": estimator(Normalizer, "transform"),
        "PolynomialFeatures": estimator(PolynomialFeatures, "transform"),
        "PCA": estimator(
            lambda: PCA(3, svd_solver="full"), "transform", outputs=("explained_variance_",)
        ),
        "PCA of the covariance": estimator(
            lambda: PCA(2, svd_solver="covariance_eigh", whiten=True), "transform"
        ),
        "PCA by random projections": estimator(
            lambda: PCA(2, svd_solver="randomized", random_state=0), "transform"
        ),
        "Ridge": estimator(
            lambda: Ridge(solver="svd"), "predict", target=TARGET, outputs=("coef_", "intercept_")
        ),
        "LinearDiscriminantAnalysis": estimator(
            LinearDiscriminantAnalysis, "predict", "predict_proba", "transform", target=Y
        ),
        "LogisticRegression": estimator(
            lambda: LogisticRegression(solver="lbfgs", tol=1e-10), "predict", "predict_proba",
            target=Y,
        ),
        "GaussianNB": estimator(GaussianNB, "predict", "predict_proba", target=Y),
        "GaussianMixture": estimator(
            lambda: GaussianMixture(2, covariance_type="tied", init_params="random_from_data",
                                    random_state=0),
            "predict", outputs=("means_", "covariances_"),
        ),
        "LabelEncoder": lambda of: LabelEncoder().fit_transform(of(Y * 7 - 3)),
        "train_test_split": split,
        "cross_val_score": lambda of: cross_val_score(  # a NumPy array in any case
            Ridge(solver="svd"), of(X), of(TARGET), cv=3
        ).tolist(),
        "log_loss": lambda of: metrics.log_loss(of((Y > 0) * 1), of(SHARE)),
    }  # fmt: skip
    for name in ("r2_score", "mean_squared_error", "mean_absolute_error", "max_error",
                 "root_mean_squared_error", "explained_variance_score"):  # fmt: skip
        cases[name] = regression(name)
    for name in ("accuracy_score", "zero_one_loss", "confusion_matrix", "hamming_loss"):
        cases[name] = classification(name)
    for name in ("f1_score", "precision_score", "recall_score", "jaccard_score"):
        cases[name] = classification(name, average="macro")
    for name in ("euclidean_distances", "cosine_similarity", "linear_kernel", "rbf_kernel",
                 "polynomial_kernel"):  # fmt: skip
        cases[name] = kernel(name)
    return cases


def scipy_cases():
    from scipy import integrate, ndimage, signal, special, stats
    from scipy.cluster import vq

    samples = X[:, :3]
    filters = signal.butter(2, 0.3, output="sos")
    return {
        "stats.zscore": lambda of: stats.zscore(of(samples), axis=0),
        "stats.moment": lambda of: stats.moment(of(samples), 3, axis=0),
        "stats.skew": lambda of: stats.skew(of(samples), axis=0),
        "stats.kurtosis": lambda of: stats.kurtosis(of(samples), axis=0, bias=False),
        "stats.variation": lambda of: stats.variation(of(samples), axis=0),
        "stats.gmean": lambda of: stats.gmean(of(np.abs(samples))),
        "stats.entropy": lambda of: stats.entropy(of(SHARE)),
        "stats.describe": lambda of: list(stats.describe(of(samples), axis=0)),
        "stats.ttest_1samp": lambda of: list(stats.ttest_1samp(of(samples), 0.0)),
        "stats.ttest_ind": lambda of: list(stats.ttest_ind(of(X[:20]), of(X[20:]))),
        "stats.pearsonr": lambda of: list(stats.pearsonr(of(TARGET), of(GUESS))),
        "stats.normaltest": lambda of: list(stats.normaltest(of(samples))),
        "stats.chisquare": lambda of: list(stats.chisquare(of(SHARE * 10 / SHARE.sum()))),
        "stats.bartlett": lambda of: list(stats.bartlett(of(X[:, 0]), of(X[:, 1]))),
        "special.logsumexp": lambda of: special.logsumexp(of(samples), axis=1),
        "special.softmax": lambda of: special.softmax(of(samples), axis=1),
        "special.log_softmax": lambda of: special.log_softmax(of(samples), axis=1),
        "special.expit": lambda of: special.expit(of(samples)),
        "special.gammaln": lambda of: special.gammaln(of(np.abs(samples) + 0.5)),
        "special.ndtri": lambda of: special.ndtri(of(SHARE)),
        "special.xlogy": lambda of: special.xlogy(of(SHARE), of(SHARE)),
        "special.rel_entr": lambda of: special.rel_entr(of(SHARE), of(SHARE[::-1].copy())),
        "special.betainc": lambda of: special.betainc(2.0, 3.0, of(SHARE)),
        "signal.detrend": lambda of: signal.detrend(of(TARGET)),
        "signal.sosfilt": lambda of: signal.sosfilt(of(filters), of(TARGET)),
        "signal.medfilt": lambda of: signal.medfilt(of(TARGET), 3),
        "signal.convolve": lambda of: signal.convolve(of(TARGET), of(SHARE[:5]), method="direct"),
        "ndimage.gaussian_filter": lambda of: ndimage.gaussian_filter(of(samples), 1.0),
        "integrate.trapezoid": lambda of: integrate.trapezoid(of(samples), axis=0),
        "cluster.vq.whiten": lambda of: vq.whiten(of(samples)),
        "cluster.vq.vq": lambda of: list(vq.vq(of(samples), of(samples[:4]))),
        "cluster.vq.kmeans": lambda of: list(vq.kmeans(of(samples), of(samples[:3]))),
    }  # fmt: skip


def compare(got, want, tensor):
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want), f"{len(got)} results, not {len(want)}"
        for one, other in zip(got, want, strict=True):
            compare(one, other, tensor)
        return
    is_array = isinstance(want, np.ndarray) or (isinstance(want, np.generic) and want.ndim)
    assert isinstance(got, tensor) or not is_array, f"a {type(got).__name__}, not a tensor"
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-7, atol=1e-9)


def run(case, tensor):
    """What is wrong with a case."""
    try:
        compare(case(tensor), case(np.asarray), tensor)
    except Exception:
        return traceback.format_exc(limit=-4)
    return ""


def main(names):
    import sklearn

    from treadle import Tensor

    warnings.simplefilter("ignore")
    sklearn.set_config(array_api_dispatch=True)
    cases = {**sklearn_cases(), **scipy_cases()}
    print(json.dumps({name: run(cases[name], Tensor) for name in names or cases}))


if __name__ == "__main__":
    main(sys.argv[1:])
