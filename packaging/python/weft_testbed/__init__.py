# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the results of ``weft run`` into a data frame, one row per flow.

>>> import weft_testbed as weft
>>> flows = weft.read("results/*.jsonl")
>>> flows[flows.measured].groupby("scheme").slowdown.mean()

The command ``weft`` comes with this package.
"""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Union, overload

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["COLUMNS", "InvalidRunWarning", "read"]

#: The newest format of results that this version reads.
FORMAT = 1

Path = Union[str, "os.PathLike[str]"]
Engine = Literal["pandas", "polars", "dicts"]

#: Columns and their types. ``int?`` is an integer that may be missing.
COLUMNS: dict[str, Literal["str", "int", "int?", "float", "bool"]] = {
    "file": "str",
    "topology": "str",
    "scheme": "str",
    "parameters": "str",
    "load": "float",
    "seed": "int",
    "weft": "str",
    "kernel": "str",
    "clock": "str",
    "valid": "bool",
    "id": "int",
    "src": "int",
    "dst": "int",
    "class": "str",
    "incast": "int?",
    "round": "int?",
    "measured": "bool",
    "start_ns": "int",
    "size": "int",
    "fct_ns": "int?",
    "slowdown": "float",
    "retransmissions": "int",
    "spurious": "int?",
    "timeouts": "int?",
    "deadline_ns": "int?",
    "priority": "int?",
    "packets": "int?",
    "detoured": "int?",
}


class InvalidRunWarning(UserWarning):
    """weft does not vouch for a run: one of its validity checks failed, or the run did not end."""


@overload
def read(
    paths: Path | Iterable[Path], *, engine: Literal["pandas"] | None = None
) -> pandas.DataFrame: ...
@overload
def read(
    paths: Path | Iterable[Path], *, engine: Literal["polars"]
) -> polars.DataFrame: ...
@overload
def read(
    paths: Path | Iterable[Path], *, engine: Literal["dicts"]
) -> list[dict[str, Any]]: ...
def read(paths: Path | Iterable[Path], *, engine: Engine | None = None) -> Any:
    """Reads result files of ``weft run`` into a data frame with one row per flow.

    Times and rates are the fabric's: weft has already divided out the dilation. The columns that
    ``weft export --csv`` has, too, have the same names.

    Parameters
    ----------
    paths
        A path, a pattern such as ``"results/*.jsonl"`` (``**`` matches folders of any depth), or
        several of them. The rows of a pattern's files are sorted by the files' names.
    engine
        ``"pandas"``, ``"polars"``, or ``"dicts"`` for a list of dicts, which needs neither.
        Default: pandas if it is installed, else polars.

    Returns
    -------
    The columns that describe the run:

    ============== ======================================================================
    file           path of the result file
    topology       for example ``fat-tree:k=4``
    scheme         for example ``pfabric``
    parameters     the scheme's parameters: ``name=value``, separated by spaces
    load           requested load, a fraction of the links' rate; missing without ``--load``
    seed           seed of all random numbers
    weft, kernel   versions
    clock          ``model``, ``virtual`` or ``real``
    valid          whether the run passed all of weft's validity checks
    ============== ======================================================================

    and those that describe the flow:

    =============== =====================================================================
    id              its number in the run
    src, dst        numbers of the sending and the receiving host
    class           ``background``, ``incast``, ``round`` (of a collective) or ``added``
    incast, round   number of its incast, or of its collective's round
    measured        whether it counts: False during warm-up and cool-down
    start_ns        when its first byte was handed to the kernel, in ns since the run began
    size            payload in bytes
    fct_ns          flow completion time in ns; missing if the flow did not end
    slowdown        ``fct_ns`` divided by the best possible completion time
    retransmissions segments that were retransmitted
    spurious        those that the receiver already had, as far as it said so (D-SACK)
    timeouts        how often the retransmission timer expired
    deadline_ns     when it had to end, in ns after its start
    priority        0, the highest, to 7; with ``--priorities``
    packets         packets that the receiver got; with ``--hops``
    detoured        those that took more hops than a shortest path has; with ``--hops``
    =============== =====================================================================

    A missing number is ``NaN`` in pandas, in a column of type ``float64`` (exact: all are below
    2**53), ``null`` in polars, and ``None`` in a dict.

    Warns
    -----
    InvalidRunWarning
        for each run that is not valid. Its rows are there, with ``valid`` False.

    Raises
    ------
    FileNotFoundError
        if a path does not exist, or no file matches a pattern.
    ImportError
        if the engine is not installed.
    ValueError
        if a file is no result of ``weft run``, or a newer weft wrote it.
    """
    engine = _engine(engine)
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for path in _files(paths):
        of_run, flows = _read_file(path)
        for name, values in columns.items():
            if name in of_run:
                values.extend([of_run[name]] * len(flows))
            else:
                values.extend([flow.get(name) for flow in flows])
    if engine == "pandas":
        return _pandas(columns)
    if engine == "polars":
        return _polars(columns)
    names = list(columns)
    return [dict(zip(names, row)) for row in zip(*columns.values())]


def _engine(engine: Engine | None) -> Engine:
    if engine not in (None, "pandas", "polars", "dicts"):
        raise ValueError(f'engine is {engine!r}, not "pandas", "polars" or "dicts"')
    if engine == "dicts":
        return engine
    names: tuple[Engine, ...] = (engine,) if engine else ("pandas", "polars")
    for name in names:
        if importlib.util.find_spec(name):
            return name
    what = engine or "neither pandas nor polars"
    raise ImportError(
        f"{what} {'is not' if engine else 'is'} installed: "
        f'pip install "weft-testbed[{engine or "pandas"}]", '
        'or read with engine="dicts"'
    )


def _files(paths: Path | Iterable[Path]) -> Iterator[str]:
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    for path in [os.fspath(path) for path in paths]:
        if os.path.exists(path):
            yield path
            continue
        matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise FileNotFoundError(f"no result file is at {path}")
        yield from matches


def _read_file(path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The columns of the run, and the flows."""
    header = summary = None
    flows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            # Most lines are samples of ports, which need not be decoded.
            if line.startswith('{"record":"port"') or not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError:
                # The last line of a run that was killed.
                if header is not None and not line.endswith("\n"):
                    break
                record = None
            if not isinstance(record, dict) or "record" not in record:
                raise ValueError(f"{path}:{number} is no record of weft")
            kind = record.pop("record")
            if kind == "header":
                header = record
                if header["format"] > FORMAT:
                    raise ValueError(
                        f"{path} has format {header['format']}, and this version reads up to "
                        f"{FORMAT}: pip install --upgrade weft-testbed"
                    )
            elif kind == "flow":
                flows.append(_flow(record))
            elif kind == "summary":
                summary = record
    if header is None:
        raise ValueError(f"{path} is no result of weft run: it has no header")
    for reason in _doubts(summary):
        warnings.warn(f"{path}: INVALID: {reason}", InvalidRunWarning, stacklevel=3)
    load = ((summary or {}).get("load") or {}).get("asked")
    parameters = header.get("parameters", {})
    of_run = {
        "file": path,
        "topology": header["topology"],
        "scheme": header["scheme"],
        "parameters": " ".join(f"{name}={value}" for name, value in parameters.items()),
        "load": load,
        "seed": header["seed"],
        "weft": header["weft"],
        "kernel": header.get("kernel"),
        "clock": header.get("clock"),
        "valid": bool(summary and summary["valid"]),
    }
    return of_run, flows


def _flow(record: dict[str, Any]) -> dict[str, Any]:
    hops = record.get("hops") or {}
    return {
        "retransmissions": 0,
        **record,
        "measured": not record.get("warm_up", False),
        # An incast's number is called `event` in the file.
        "incast": record.get("event"),
        "packets": hops.get("packets"),
        "detoured": hops.get("detoured"),
    }


def _doubts(summary: dict[str, Any] | None) -> list[str]:
    """Why a run is not valid."""
    if summary is None:
        return ["the run did not end"]
    if summary["valid"]:
        return []
    failed = [_failed(gate) for gate in summary["gates"] if not gate["ok"]]
    return [*failed, *summary.get("failures", [])]


def _failed(gate: dict[str, Any]) -> str:
    """A sentence on a validity check."""
    unit = f" {gate['unit']}" if gate["unit"] else ""
    measured = gate["measured"]
    value = "not measured" if measured is None else f"{measured:.4g}{unit}"
    limit = f"{gate['passes'].replace('_', ' ')} {gate['limit']:.15g}{unit}"
    return f"{gate['name']}: {value}, expected {limit}"


def _pandas(columns: dict[str, list[Any]]) -> pandas.DataFrame:
    import pandas

    # Without a type, pandas chooses the one that it has for text.
    types = {
        "str": None,
        "int": "int64",
        "int?": "float64",
        "float": "float64",
        "bool": "bool",
    }
    series = {
        name: pandas.Series(columns[name], dtype=types[kind])
        for name, kind in COLUMNS.items()
    }
    frame: pandas.DataFrame = pandas.DataFrame(series)
    return frame


def _polars(columns: dict[str, list[Any]]) -> polars.DataFrame:
    import polars

    types = {
        "str": polars.String,
        "int": polars.Int64,
        "int?": polars.Int64,
        "float": polars.Float64,
        "bool": polars.Boolean,
    }
    schema = {name: types[kind] for name, kind in COLUMNS.items()}
    return polars.DataFrame(columns, schema=schema)
