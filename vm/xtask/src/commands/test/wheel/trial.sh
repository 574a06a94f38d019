# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs the wheel into an environment of its own, runs weft there, and reads its results.
# usage: trial.sh WHEEL SOURCES FOLDER LIBRARIES     SOURCES: of the Python package; FOLDER: empty; LIBRARIES: pandas and polars, or ''
set -eu
wheel=$1 sources=$2 folder=$3 libraries=$4
environment=$folder/environment
unset PYTHONPATH PYTHONHOME WEFT_MACHINE WEFT_CACHE
export XDG_CACHE_HOME="$folder/cache" PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

virtualenv --quiet --python /usr/bin/python3 "$environment"
find "$environment" | sort >"$folder/before"
"$environment/bin/pip" install --quiet --no-index --no-compile "$wheel"
"$environment/bin/pip" check
PATH=$environment/bin:$PATH
[ "$(command -v weft)" = "$environment/bin/weft" ]
weft --version
cd "$folder"
weft run rack:hosts=3 --dilation 1000 --scheme pfabric,droptail --workload web-search --load 0.4 --flows 20 --seed 1,2 \
	--quiet --out results

# Without a library: a list of dicts, and an error that names what to install.
python -W error -c '
import weft_testbed as weft
rows = weft.read("results/*.jsonl", engine="dicts")
assert {(row["scheme"], row["seed"]) for row in rows} == {(s, n) for s in ("pfabric", "droptail") for n in (1, 2)}
try:
    weft.read("results/*.jsonl")
except ImportError as error:
    assert "pip install" in str(error), error
else:
    raise AssertionError("there is a library")
'
export WEFT_RESULTS="$folder/results"
PYTHONPATH=$libraries python -W error -m unittest discover "$sources/tests"
[ -z "$libraries" ] || PYTHONPATH=$libraries python -W error -c '
import weft_testbed as weft
flows = weft.read("results/*.jsonl")
print(flows[flows.measured].groupby(["scheme", "seed"])[["slowdown", "timeouts"]].mean())
import polars
flows = weft.read("results/*.jsonl", engine="polars")
print(flows.filter("measured").group_by("scheme").agg(polars.col("slowdown").mean()).sort("scheme"))
'
"$environment/bin/pip" uninstall --quiet --yes weft-testbed
find "$environment" | sort | cmp - "$folder/before"
echo passed
