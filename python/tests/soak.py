"""A thousand fits and as many predictions in threads: memory stays, nothing is left open, nothing crashes.

    python3 python/tests/soak.py [--fits 1000] [--threads 4]

Prints one JSON object; exit 1 where the resident memory of the second half grew by more than a twentieth."""
from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import threading
import time
import warnings

import support
import trident
from trident import _arrow


def resident() -> int:
    """Bytes of memory that this process has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--fits", type=int, default=1000)
    options.add_argument("--threads", type=int, default=4)
    asked = options.parse_args()
    warnings.simplefilter("ignore")
    work = tempfile.TemporaryDirectory()
    config = support.config(support.make_model(os.path.join(work.name, "model")), threads=1)
    table, lock, left, measured = support.make_table(48), threading.Lock(), [asked.fits], []
    rows = support.rows_of(support.without_label(table))
    expected: list[object] = []
    failures: list[str] = []

    def work_on() -> None:
        while True:
            with lock:
                if not left[0]:
                    return
                left[0] -= 1
                number = asked.fits - left[0]
            try:
                model = trident.Classifier(config=config, max_steps=2, progress=False)
                model.fit(support.without_label(table), table["label"])
                found = [model.predict_proba(support.without_label(table)).tolist()[:4],
                         [model.predict_proba([row]).tolist()[0] for row in rows[:4]]]
                with lock:
                    expected[:] = expected or [found]
                    if found != expected[0] or found[0] != found[1]:
                        failures.append(f"fit {number} predicts otherwise")
            except Exception as error:
                failures.append(f"fit {number}: {error!r}")
            if number % max(1, asked.fits // 50) == 0:
                gc.collect()
                measured.append(resident())

    begin = time.monotonic()
    threads = [threading.Thread(target=work_on) for _ in range(asked.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    quarter = max(1, len(measured) // 4)
    before = sum(measured[quarter:2 * quarter]) / quarter
    after = sum(measured[-quarter:]) / quarter
    growth = after / before - 1
    print(json.dumps({"fits": asked.fits, "threads": asked.threads, "seconds": round(time.monotonic() - begin, 1),
                      "resident_mb_second_quarter": round(before / 1e6, 1),
                      "resident_mb_last_quarter": round(after / 1e6, 1), "growth": round(growth, 4),
                      "descriptors": len(os.listdir("/proc/self/fd")), "structures_held": len(_arrow._held),
                      "failures": failures[:5]}))
    return int(growth > 0.05 or bool(failures) or bool(_arrow._held))


if __name__ == "__main__":
    sys.exit(main())
