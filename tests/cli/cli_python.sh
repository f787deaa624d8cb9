# cli_python.sh - the Python package's own tests (python/tests) with the python3 that is here, whatever packages it has.
# `make test-python` has the matrix of Pythons and packages.
project=$(cd "$(dirname "$0")/../.." && pwd)
. "$project/tests/lib/cli_lib.sh"
python=$(command -v python3) || { echo "there is no python3 here"; exit 77; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || { echo "python3 is older than 3.9"; exit 77; }
"$python" -c 'import ctypes' 2>/dev/null || { echo "this python3 has no ctypes"; exit 77; }
if [ -n "${TRI_SANITIZED:-}" ]; then
    echo "an interpreter without a sanitizer cannot load this library; python/tests/matrix --asan does"
    exit 77
fi
last_command="python3 -m unittest discover -s python/tests"
export PYTHONDONTWRITEBYTECODE=1
OMP_WAIT_POLICY=passive "$python" -m unittest discover -s "$project/python/tests" >"$out" 2>"$err"
code=$?
expect_code 0
[ "$code" = 0 ] || cat "$err"
tail -n 3 "$err"

# The package works where it is put beside its library, with nothing in the environment.
mkdir -p site && cp -r "$project/python/trident" site/ && cp "$TRI_BUILD/libtrident.so" site/trident/libtrident.so.0
last_command="import trident, beside its library"
PYTHONPATH=$work/site "$python" -c 'import trident; print(trident.__version__, trident._library.path())' \
    >"$out" 2>"$err"
code=$?
expect_code 0
expect_text "$out" "$("$trident" --version | awk '{ print $2; exit }')" "site/trident/libtrident.so.0"
finish
