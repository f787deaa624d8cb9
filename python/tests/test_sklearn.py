"""scikit-learn: all API checks of check_estimator, clone, pipelines, searches. Skipped where it is not installed."""
from __future__ import annotations

import unittest
import warnings

import support  # noqa: F401
import trident
from support import Case, make_table, without_label

try:
    import numpy
    import sklearn
    from sklearn.base import clone, is_classifier
    from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.utils.estimator_checks import check_estimator
except ImportError as missing:
    raise unittest.SkipTest(f"scikit-learn is not installed ({missing.name})") from None

VERSION = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
# Checks that are not passed, and why. None of them is an API check.
EXPECTED = {
    "check_all_zero_sample_weights_error": "refused in the library's words: all rows weigh 0",
    **dict.fromkeys(["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"],
                    "a row of weight 2 is one row of a batch; twice the row is two of them"),
    "check_classifiers_train": "the model of these tests takes two steps",
    "check_classifiers_regression_target": "numbers are labels like all others, at most 100 different ones",
    "check_supervised_y_2d": "a column of labels is taken without a warning",
    "check_fit2d_1sample": "one row is refused in the library's words",
}


class Sklearn(Case):
    def tiny(self, **options):
        return trident.Classifier(text="x0", numbers="auto", encoder=self.model, max_steps=2, threads=1, progress=False,
                                  primary_encoder=support.ENCODER, **options)

    @unittest.skipIf(VERSION < (1, 6), "check_estimator has no expected_failed_checks before 1.6")
    def test_checks(self):
        """legacy=False are the API checks: all of them pass. Of the others those pass that are not listed above."""
        for legacy, least in (False, 10), (True, 40):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = check_estimator(self.tiny(), legacy=legacy, expected_failed_checks=EXPECTED if legacy else None,
                                        on_skip=None, on_fail=None)
            failed = [(each["check_name"], repr(each["exception"])) for each in found if each["status"] == "failed"]
            self.assertEqual(failed, [])
            self.assertGreater(sum(each["status"] == "passed" for each in found), least)

    def test_not_fitted(self):
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.validation import check_is_fitted

        with self.assertRaises(NotFittedError):
            trident.Classifier().predict(["a"])
        with self.assertRaises(NotFittedError):
            check_is_fitted(trident.Classifier())
        check_is_fitted(self.fitted())
        self.assertTrue(is_classifier(trident.Classifier()))

    def test_clone(self):
        model = self.fitted(lr=0.1)
        again = clone(model)
        self.assertEqual(again.get_params(), model.get_params())
        self.assertFalse(again.__sklearn_is_fitted__())

    def test_searches(self):
        pandas = __import__("pandas")
        table = make_table(60)
        X, y = pandas.DataFrame(without_label(table)), numpy.array(["no", "yes"])[table["label"]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            folds = StratifiedKFold(2)
            scores = cross_val_score(self.classifier(max_steps=2), X, y, cv=folds)
            self.assertEqual(scores.shape, (2,))
            areas = cross_val_score(self.classifier(max_steps=2), X, y, cv=folds, scoring="roc_auc")
            self.assertTrue(((areas >= 0) & (areas <= 1)).all())
            search = GridSearchCV(self.classifier(max_steps=2), {"lr": [1e-3, 1e-2]}, cv=folds,
                                  scoring="neg_log_loss").fit(X, y)
            self.assertIn(search.best_params_["lr"], (1e-3, 1e-2))
            self.assertEqual(list(search.predict(X[:2])), list(search.best_estimator_.predict(X[:2])))
            pipe = make_pipeline(FunctionTransformer(lambda frame: frame.assign(size=frame["size"] * 2)),
                                 self.classifier(max_steps=2)).fit(X, y)
            self.assertEqual(pipe.predict_proba(X).shape, (60, 2))
            self.assertEqual(set(pipe.classes_), {"no", "yes"})
            parallel = cross_val_score(self.classifier(max_steps=2), X, y, cv=folds, n_jobs=2)
            numpy.testing.assert_array_equal(parallel, scores)


if __name__ == "__main__":
    unittest.main()
