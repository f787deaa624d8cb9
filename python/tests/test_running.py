"""Runs as they go on: callbacks, Ctrl-C, processes that are forked, several ranks, progress."""
from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
import unittest
from unittest import mock

import support
import trident
from support import Case, make_table, rows_of, without_label, write_csv


def steps_of(folder):
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        return [event["step"] for event in map(json.loads, file) if event["event"] == "train"]


def is_gone(process):
    """A zombie is gone."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


class Callbacks(Case):
    def test_events(self):
        class Both:
            def __init__(self):
                self.steps, self.epochs = [], []

            def on_step(self, event):
                self.steps.append((event["step"], threading.current_thread() is threading.main_thread()))

            def on_epoch(self, event):
                self.epochs.append(event["epoch"])

        seen, told = Both(), []
        table, valid = make_table(64), make_table(16, 64)
        model = self.classifier(callbacks=[seen, lambda event: told.append(event["event"])])
        model.fit(table, "label", eval_set=(valid, "label"))
        self.assertEqual(seen.steps, [(i + 1, True) for i in range(8)])
        self.assertEqual(len(seen.epochs), 2)
        self.assertEqual((told.count("train"), told.count("epoch")), (8, 2))

    def test_false_stops(self):
        for in_thread in False, True:
            folder = self.path(f"stopped{in_thread}")
            model = self.classifier(output_dir=folder, callbacks=lambda event: event["step"] < 3)
            if in_thread:
                thread = threading.Thread(target=model.fit, args=(make_table(64), "label"))
                thread.start()
                thread.join()
            else:
                model.fit(make_table(64), "label")
            self.assertEqual(steps_of(folder), [1, 2, 3])
            self.assertEqual(len(model.predict([{"text": "a"}])), 1)
        with self.raises(trident.UsageError, "on_step"):
            self.classifier(callbacks=3).fit(make_table(64), "label")

    def test_errors_end_the_run(self):
        def fails(event):
            raise KeyError("mine")

        folder = self.path("failed")
        with self.assertRaises(KeyError):
            self.classifier(output_dir=folder, callbacks=fails).fit(make_table(64), "label")
        self.assertEqual(steps_of(folder), [1])

    def test_progress(self):
        for columns in 30, 200:
            said = io.StringIO()
            with mock.patch("sys.stderr", said), mock.patch("shutil.get_terminal_size",
                                                            return_value=os.terminal_size((columns, 20))):
                self.classifier(max_steps=3).set_params(progress=True).fit(make_table(64), "label")
            self.assertIn("\repoch", said.getvalue())

    def test_progress_of_a_notebook(self):
        shown = mock.MagicMock()
        modules = {"IPython": types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=True)),
                   "IPython.display": types.SimpleNamespace(display=shown)}
        with mock.patch.dict(sys.modules, modules):
            trident.Classifier(config=support.config(self.model), max_steps=3).fit(make_table(64), "label")
        self.assertEqual(shown.call_count, 1, "one output, which updates")
        last = shown.return_value.update.call_args_list[-1]
        self.assertIn("epoch 1/2", last.args[0]["text/plain"])

    def test_nothing_is_said(self):
        said = io.StringIO()
        with mock.patch("sys.stderr", said):
            trident.Classifier(config=support.config(self.model), max_steps=3).fit(make_table(64), "label")
        self.assertEqual(said.getvalue(), "")


class Interrupted(Case):
    """A test that interrupts itself: a shell starts what it puts into the background with SIGINT ignored."""

    def setUp(self):
        super().setUp()
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))


class Interrupts(Interrupted):
    def test_interrupt(self):
        folder = self.path("run")
        model = self.classifier(output_dir=folder, epochs=1000)
        timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            model.fit(make_table(64), "label")
        timer.join()
        self.assertEqual(len(model.predict([{"text": "a"}])), 1)
        taken = len(steps_of(folder))
        self.assertGreater(taken, 0)
        model.set_params(callbacks=lambda event: False).fit(make_table(64), "label")
        self.assertEqual(len(steps_of(folder)), taken + 1, "the run goes on")

    def test_interrupt_in_a_callback(self):
        def interrupts(event):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.classifier(callbacks=interrupts).fit(make_table(64), "label")

    def script(self, text, **settings):
        code = textwrap.dedent("""
            import os, sys, warnings
            sys.path.insert(0, %r)
            import support, trident
            from support import make_table
            warnings.simplefilter("ignore")
            model = trident.Classifier(config=support.config(%r), max_steps=2, progress=False)
            model.fit(make_table(64), "label")
            """) % (os.path.dirname(os.path.abspath(__file__)), self.model) + textwrap.dedent(text)
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **settings)

    def test_fork(self):
        found = self.script("""
            child = os.fork()
            if not child:
                try:
                    model.predict([{"text": "a"}])
                except RuntimeError as error:
                    print(error)
                del model
                sys.exit(3)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            print(code, len(model.predict([{"text": "a"}])), os.path.exists(model.run_dir_))
            """)
        self.assertIn("spawn", found.stdout, found.stderr)
        self.assertIn("3 1 True", found.stdout, found.stderr)

    def test_end_of_the_interpreter(self):
        found = self.script("""
            import threading
            def work():
                while True:
                    model.predict([{"text": "a"}])
            threading.Thread(target=work, daemon=True).start()
            """)
        self.assertEqual((found.returncode, found.stderr), (0, ""))

    def test_import_alone_does_nothing(self):
        code = "import sys, trident; print([name for name in ('numpy', 'pandas', 'sklearn') if name in sys.modules])"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                               env={**os.environ, "PYTHONPATH": os.path.join(support.ROOT, "python"),
                                    "TRIDENT_LIBRARY": "/nowhere"})
        self.assertEqual(found.stdout.strip(), "[]")

    def test_missing_library(self):
        found = subprocess.run([sys.executable, "-c", "import trident; trident.plan()"], capture_output=True, text=True,
                               env={**os.environ, "PYTHONPATH": os.path.join(support.ROOT, "python"),
                                    "TRIDENT_LIBRARY": "/nowhere/lib.so"}, check=False)
        self.assertIn("ImportError: libtrident.so.0 cannot be loaded", found.stderr)
        self.assertIn("TRIDENT_LIBRARY", found.stderr)

    def test_environment_is_left_alone(self):
        found = self.script("print([name for name in os.environ if name in ('GOMP_SPINCOUNT', 'KMP_BLOCKTIME')])",
                            env={name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"})
        self.assertEqual(found.stdout.strip(), "[]", found.stderr)


class Ranks(Interrupted):
    def test_two_ranks(self):
        table, valid = make_table(64), make_table(16, 64)
        seen = []
        model = self.classifier(ranks=2, max_steps=6, output_dir=self.path("ranks"),
                                callbacks=lambda event: seen.append(event["event"]))
        model.fit(table, "label", eval_set=(without_label(valid), valid["label"]))
        self.assertEqual(seen.count("train"), len(steps_of(model.run_dir_)))
        self.assertGreater(seen.count("train"), 0)
        self.assertEqual(len(model.predict(rows_of(without_label(valid)))), 16)
        self.assertEqual(list(model.classes_), [0, 1])
        for name, rows in ("train", table), ("valid", valid):
            write_csv(self.path("data", f"{name}.csv"), rows)
        with open(self.path("ranks.json"), "w", encoding="utf-8") as out:
            json.dump(support.config(self.model), out)
        subprocess.run([support.PROGRAM, "train", "--config", self.path("ranks.json"), "--data-path", self.path("data"),
                        "--output-dir", self.path("alike"), "--nproc-per-node=2", "--max-steps=6", "--quiet"],
                       check=True, capture_output=True)
        self.assertEqual(trident.run("digest", model.run_dir_), trident.run("digest", self.path("alike")))

    def test_ensemble(self):
        model = self.classifier(seeds=2, max_steps=2).fit(make_table(64), "label")
        self.assertEqual(len(model.predict([{"text": "a"}])), 1)

    def test_errors_are_the_same(self):
        with self.raises(trident.UsageError, "did you mean"):
            self.classifier(ranks=2, lerning_rate=1).fit(make_table(64), "label")

    @unittest.skipUnless(shutil.which("setpriv"), "there is no setpriv here")
    def test_death_of_the_parent(self):
        """A kernel that is killed takes its ranks along, which save a checkpoint."""
        code = textwrap.dedent("""
            import sys
            sys.path.insert(0, %r)
            import support, trident
            trident.Classifier(config=support.config(%r), ranks=2, epochs=100000, output_dir=%r, progress=False).fit(
                support.make_table(64), "label")
            """) % (os.path.dirname(os.path.abspath(__file__)), self.model, self.path("orphan"))
        parent = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code])
        while not any(name.startswith("checkpoint-") for _, names, _ in os.walk(self.path("orphan")) for name in names):
            time.sleep(0.05)
        parent.kill()
        parent.wait()
        lock = os.path.join(self.path("orphan"), ".lock")
        with open(lock, encoding="ascii") as file:
            rank = int(file.read())
        for _ in range(600):
            if is_gone(rank):
                break
            time.sleep(0.05)
        else:
            self.fail("the run goes on")

    def test_interrupt(self):
        folder = self.path("interrupted")
        model = self.classifier(ranks=2, output_dir=folder, epochs=10000)

        def interrupt():
            while not any(name.startswith("checkpoint-") for _, names, _ in os.walk(folder) for name in names):
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            model.fit(make_table(64), "label")
        thread.join()
        self.assertEqual(len(model.predict([{"text": "a"}])), 1)


if __name__ == "__main__":
    unittest.main()
