"""Plans, layouts, tables and any command, in this process."""
from __future__ import annotations

import json
import subprocess
import unittest
import warnings

import support
import trident
from support import Case, make_table, without_label, write_csv


class Commands(Case):
    def test_version(self):
        found = subprocess.run([support.PROGRAM, "version"], capture_output=True, text=True, check=True).stdout
        self.assertIn(trident.__version__, found)
        self.assertEqual(trident.run("version"), found)

    def test_plan(self):
        plan = trident.plan(support.config(self.model), make_table(64), world_size=2, shard="zero1")
        self.assertEqual(len(plan.facts["ranks"]), 2)
        self.assertIn("<svg", plan._repr_html_())
        self.assertEqual(str(plan), plan.text)
        self.assertTrue(plan.text)
        with self.raises(trident.UsageError, "did you mean"):
            trident.plan(support.config(self.model), wrold_size=2)
        with self.raises(FileNotFoundError):
            trident.plan(self.path("nowhere.json"))

    def test_simulate_and_choose(self):
        config = support.config(self.model)
        self.assertGreater(trident.simulate(config, world_size=2, hardware="cpu")["step_seconds"], 0)
        self.assertTrue(trident.choose(config, world_size=2, hardware="cpu", top=1))

    def test_inspect(self):
        table = make_table(120)
        path = write_csv(self.path("train.csv"), table)
        found = trident.inspect(table)
        kinds = {column["name"]: column["kind"] for column in found["columns"]}
        self.assertEqual((kinds["text"], kinds["weight"]), ("text", "numeric"))
        of_file = trident.inspect(path)
        self.assertEqual(found["columns"], of_file["columns"])
        self.assertEqual(trident.inspect(without_label(table), table["label"])["label"], "label")
        self.assertEqual(trident.inspect(table, "size")["label"], "size")

    def test_run(self):
        with open(self.path("config.json"), "w", encoding="utf-8") as out:
            json.dump(support.config(self.model), out)
        trident.run("train", "--config", self.path("config.json"), "--data-path=memory:train", "--max-steps=2",
                    "--output-dir", self.path("run"), "--quiet", tables={"train": make_table(64)})
        self.assertEqual(len(trident.run("digest", self.path("run")).strip()), 32)
        with self.raises(trident.UsageError):
            trident.run("serve", self.path("run"))
        with self.raises(trident.UsageError, "did you mean"):
            trident.run("trian")
        with self.raises(trident.UsageError, "0 byte"):
            trident.run("train", "a\0b")
        with self.raises(trident.TridentError, "rows"):
            trident.run("eval", "--checkpoint", self.path("run"), "--data-path=memory:rows")

    def test_warnings(self):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            model = self.fitted()
            model.score(make_table(96))
        self.assertTrue(any("train" in str(each.message) for each in found), [str(each.message) for each in found])


if __name__ == "__main__":
    unittest.main()
