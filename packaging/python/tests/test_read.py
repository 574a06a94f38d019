# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests of ``weft_testbed``: ``python -m unittest discover packaging/python/tests``.

``WEFT_RESULTS`` names a folder with results of ``weft run``, and ``WEFT`` the command: what weft
exports is then compared with what Python reads. Tests of pandas and polars are skipped where they
are not installed.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import weft_testbed as weft

HEADER = {
    "record": "header",
    "format": 1,
    "weft": "0.1.0",
    "kernel": "7.2-model",
    "clock": "model",
    "seed": 7,
    "topology": "rack:hosts=3",
    "scheme": "pfabric",
    "parameters": {"buffer": "36000", "rto_min": "45us"},
    "workload": {},
}
FLOWS = [
    {
        "record": "flow",
        "id": 0,
        "src": 2,
        "dst": 1,
        "class": "background",
        "warm_up": True,
        "start_ns": 17,
        "size": 1460,
        "fct_ns": 9007199254740991,
        "slowdown": 1.5,
    },
    {
        "record": "flow",
        "id": 1,
        "src": 0,
        "dst": 1,
        "class": "incast",
        "event": 4,
        "warm_up": False,
        "start_ns": 20,
        "size": 3000,
        "fct_ns": None,
        "slowdown": None,
        "retransmissions": 3,
        "timeouts": 2,
        "priority": 3,
        "hops": {"packets": 8, "detoured": 1},
        "a field of a newer version": 1,
    },
]
PORT = {"record": "port", "time_ns": 1}
NEWER = {"record": "a kind of a newer version"}
SUMMARY = {
    "record": "summary",
    "valid": True,
    "gates": [],
    "load": {"asked": 0.4, "offered": 0.41},
}


def needs(name: str):
    return unittest.skipUnless(importlib.util.find_spec(name), f"{name} is missing")


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name: str, *records: dict, end: str = "\n") -> pathlib.Path:
        lines = [json.dumps(record, separators=(",", ":")) for record in records]
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + end, encoding="utf-8")
        return path

    def whole(self, name: str, **header) -> pathlib.Path:
        return self.write(name, {**HEADER, **header}, *FLOWS, PORT, NEWER, SUMMARY)


class Read(Files):
    def test_each_flow_is_a_row_with_its_run(self):
        path = self.whole("a.jsonl")
        first, second = weft.read(path, engine="dicts")
        self.assertEqual(list(first), list(weft.COLUMNS))
        expected = {
            "file": str(path),
            "scheme": "pfabric",
            "parameters": "buffer=36000 rto_min=45us",
            "load": 0.4,
            "seed": 7,
            "valid": True,
            "measured": False,
            "incast": None,
            "retransmissions": 0,
            "spurious": None,
            "priority": None,
            "fct_ns": 9007199254740991,
        }
        self.assertEqual({name: first[name] for name in expected}, expected)
        expected = {
            "measured": True,
            "class": "incast",
            "incast": 4,
            "fct_ns": None,
            "slowdown": None,
            "retransmissions": 3,
            "timeouts": 2,
            "priority": 3,
            "packets": 8,
            "detoured": 1,
        }
        self.assertEqual({name: second[name] for name in expected}, expected)

    def test_patterns_and_several_paths_are_read_in_order(self):
        for seed in (2, 1):
            self.whole(f"results/seed{seed}.jsonl", seed=seed)
        other = self.whole("other.jsonl", seed=9)
        pattern = str(self.folder / "results" / "*.jsonl")
        rows = weft.read([pattern, other], engine="dicts")
        self.assertEqual([row["seed"] for row in rows], [1, 1, 2, 2, 9, 9])
        everywhere = weft.read(str(self.folder / "**" / "*.jsonl"), engine="dicts")
        self.assertEqual(len(everywhere), 6)

    def test_a_name_that_looks_like_a_pattern_is_a_name(self):
        path = self.whole("[a].jsonl")
        self.assertEqual(len(weft.read(str(path), engine="dicts")), 2)

    def test_no_file_is_an_error(self):
        for path in ("none.jsonl", "*.jsonl"):
            with self.assertRaisesRegex(FileNotFoundError, "jsonl"):
                weft.read(self.folder / path, engine="dicts")

    def test_a_run_that_is_not_valid_is_named_with_the_reason(self):
        gate = {"name": "timer lateness", "measured": 3100.0, "unit": "ns"}
        gate |= {"passes": "at_most", "limit": 1200.0, "ok": False}
        bad = {**SUMMARY, "valid": False, "gates": [gate]}
        path = self.write("bad.jsonl", HEADER, *FLOWS, bad)
        reason = "timer lateness: 3100 ns, expected at most 1200 ns"
        with self.assertWarnsRegex(weft.InvalidRunWarning, reason) as caught:
            rows = weft.read(path, engine="dicts")
        self.assertEqual([row["valid"] for row in rows], [False, False])
        self.assertEqual(caught.filename, __file__)

    def test_a_run_that_was_killed_is_read_up_to_there(self):
        for end in ("\n", '\n{"record":"flow","id":2,"sr'):
            path = self.write("killed.jsonl", HEADER, *FLOWS, end=end)
            with self.assertWarnsRegex(weft.InvalidRunWarning, "did not end"):
                rows = weft.read(path, engine="dicts")
            self.assertEqual(len(rows), 2)
            self.assertFalse(rows[0]["valid"])

    def test_other_files_and_newer_formats_are_refused(self):
        path = self.folder / "other"
        for text in ("", "a,b\n1,2\n", "[1]\n", "{}\n"):
            path.write_text(text, encoding="utf-8")
            with self.assertRaisesRegex(ValueError, "other"):
                weft.read(path, engine="dicts")
        newer = self.write("newer.jsonl", {**HEADER, "format": 2}, SUMMARY)
        with self.assertRaisesRegex(ValueError, "pip install --upgrade"):
            weft.read(newer, engine="dicts")

    def test_an_engine_that_is_not_there_is_named_with_the_cure(self):
        path = self.whole("a.jsonl")
        with self.assertRaisesRegex(ValueError, "arrow"):
            weft.read(path, engine="arrow")
        hidden = {name: None for name in ("pandas", "polars")}
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name: hidden.get(name)
        self.addCleanup(setattr, importlib.util, "find_spec", find)
        with self.assertRaisesRegex(ImportError, r"weft-testbed\[polars\]"):
            weft.read(path, engine="polars")
        with self.assertRaisesRegex(ImportError, "neither pandas nor polars is"):
            weft.read(path)

    @needs("pandas")
    def test_pandas_has_fixed_types(self):
        types = {"int": "int64", "int?": "float64", "float": "float64", "bool": "bool"}
        rows = weft.read(self.whole("a.jsonl"))
        for name, kind in weft.COLUMNS.items():
            if kind != "str":
                self.assertEqual(str(rows[name].dtype), types[kind], name)
        self.assertEqual(rows.loc[0, "fct_ns"], 9007199254740991)
        self.assertTrue(rows.fct_ns.isna()[1])
        mean = rows[~rows.measured].groupby("scheme").slowdown.mean()
        self.assertEqual(mean["pfabric"], 1.5)

    @needs("polars")
    def test_polars_has_fixed_types(self):
        import polars

        rows = weft.read(self.whole("a.jsonl"), engine="polars")
        self.assertEqual(rows.schema["fct_ns"], polars.Int64)
        self.assertEqual(rows.schema["scheme"], polars.String)
        self.assertEqual(rows["fct_ns"].to_list(), [9007199254740991, None])


@unittest.skipUnless("WEFT_RESULTS" in os.environ, "WEFT_RESULTS names no folder")
class RealResults(unittest.TestCase):
    def test_what_weft_exports_is_what_python_reads(self):
        files = sorted(
            map(str, pathlib.Path(os.environ["WEFT_RESULTS"]).glob("*.jsonl"))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rows = weft.read(files, engine="dicts")
        command = [os.environ.get("WEFT", "weft"), "export", "--csv", *files]
        text = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout
        exported = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual(len(rows), len(exported))
        self.assertGreater(len(rows), 0)
        for row, other in zip(rows, exported):
            for name, value in other.items():
                with self.subTest(id=row["id"], column=name):
                    self.assertEqual(_as_number(row[name]), _as_number(value))


def _as_number(value):
    if value is None or value == "":
        return None
    try:
        return float(value)
    except ValueError:
        return value


if __name__ == "__main__":
    sys.exit(unittest.main())
