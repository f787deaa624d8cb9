# The example of collectives (examples/ranks.c) prints the same with threads and with processes.
. "$(dirname "$0")/../lib/cli_lib.sh"
ranks=$TRI_BUILD/examples/ranks
cat >want <<'END'
rank 0 of 4: sum 10, squares 0 1 4 9, from before 9
rank 1 of 4: sum 10, squares 0 1 4 9, from before 0
rank 2 of 4: sum 10, squares 0 1 4 9, from before 1
rank 3 of 4: sum 10, squares 0 1 4 9, from before 4
END

run_ranks() {
    last_command="ranks $*"
    "$ranks" "$@" >"$out" 2>"$err"
    code=$?
}

run_ranks
expect_code 0
expect "four threads talk" cmp -s "$out" want
run_ranks 4 --forks
expect_code 0
expect "four processes talk" cmp -s "$out" want
run_ranks 1
expect_code 0
expect_text "$out" "rank 0 of 1: sum 1, squares 0, from before 0"
run_ranks 0
expect_code 2
finish
