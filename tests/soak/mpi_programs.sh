# Random programs on ranks that mpirun started, ten to a job: groups are not given back while a world lasts.
. "$(dirname "$0")/../lib/cli_lib.sh"
[ -e "$TRI_BUILD/libtrident_mpi.so" ] && command -v mpirun >/dev/null || { echo "left out: no MPI here"; exit 0; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
seeds=${SOAK_SEEDS:-300}
for ((first = 1; first <= seeds && failures < 3; first += 10)); do
    last_command="mpirun -np 4 test_collectives join $first 10"
    timeout -k 2 120 mpirun --oversubscribe --bind-to none -np 4 "$TRI_BUILD/tests/test_collectives" join "$first" 10 \
        >"$out" 2>"$err"
    code=$?
    expect_code 0
    expect_text "$out" "10 programs of 200 operations on 4 ranks"
done
echo "$((first - 1)) programs of 200 operations under mpirun -np 4"
finish
