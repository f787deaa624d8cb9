# ulfm_job.sh - what the tests of MPI jobs with ULFM share: the MPI, the program with that MPI's plug-in, machines that
# are pid namespaces of this one. Source it after cli_lib.sh, with $root, the project's folder.
skip() {
    echo "$*"
    exit 77
}
bin=$TRI_BUILD/ulfm/bin
[ -e "$bin/mpirun" ] || bin=$(dirname "$(command -v ompi_info || echo none)")
"$bin/ompi_info" 2>/dev/null | grep -q 'FT MPI support: yes' || skip "there is no Open MPI with ULFM here: make ulfm"
[ -n "${TRI_SANITIZED:-}" ] && skip "under a sanitizer; test_partner has the same over threads"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE

# The plug-in of that MPI beside a copy of the program.
mkdir -p there
cp "$TRI_BUILD/trident" there/
"$bin/mpicc" -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -I"$root/src" -fPIC -fvisibility=hidden -O2 -shared \
    -o there/libtrident_mpi.so "$root/src/comm/mpi/plugin.c" >"$out" 2>"$err"
expect "the plug-in builds with that MPI" test -e there/libtrident_mpi.so
trident=$work/there/trident
job=("$bin/mpirun" --with-ft ulfm --oversubscribe --bind-to none --mca btl tcp,self --mca btl_tcp_if_include lo)

# Machines: rank r of a job with EACH ranks a machine is in namespace r / EACH.
inits=()
cleanup() {
    [ ${#inits[@]} = 0 ] || kill -KILL "${inits[@]}" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT
cat >enter <<END
#!/bin/bash
exec nsenter -p -t "\$(cat "$work/init.\$((OMPI_COMM_WORLD_RANK / EACH))")" "\$@"
END
chmod +x enter
for m in 0 1 2 3; do
    unshare -p --fork sleep 7200 2>/dev/null &
    for i in $(seq 100); do
        pgrep -P $! >"init.$m" && break
        sleep 0.01
    done
    [ -s "init.$m" ] || skip "process namespaces are not allowed here"
    inits+=("$(cat "init.$m")")
done

# process_of FOLDER RANK: the process of a rank, by what mpirun told it.
process_of() {
    for p in $(pgrep -f "^$trident train.*--output-dir $1( |\$)"); do
        tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$2" && echo "$p"
    done
}
