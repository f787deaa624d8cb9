"""The notebook of examples/ runs as it is."""
from __future__ import annotations

import os
import unittest

import notebook
import support


class Notebook(support.Case):
    def test_reviews(self):
        before = os.getcwd()
        os.chdir(self.work)
        self.addCleanup(os.chdir, before)
        names = notebook.run(os.path.join(support.ROOT, "examples", "reviews.ipynb"), shows=False)
        self.assertGreater(names["figures"]["accuracy"], 0.8)


if __name__ == "__main__":
    unittest.main()
