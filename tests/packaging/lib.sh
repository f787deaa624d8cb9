# lib.sh - what the tests of packages share. Source it. $root is a root of Debian 12, $work the user's folder, the same
# inside and outside; `run`, `expect` and the rest are those of cli_lib.sh, for the trident that is in the root.
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TRI_BUILD=$project
. "$project/tests/lib/cli_lib.sh"
skip() { echo "skipped: $*" && exit 77; }
needs() { # PROGRAM=PACKAGE...
    local each missing=
    for each; do command -v "${each%%=*}" >/dev/null || missing+=" ${each#*=}"; done
    [ -z "$missing" ] || skip "to install: apt-get install -y --no-install-recommends$missing"
}
[ "$(id -u)" = 0 ] || skip "needs root: the files of a root belong to several users"
needs mmdebstrap=mmdebstrap bwrap=bubblewrap
bwrap --ro-bind / / true 2>/dev/null || skip "bubblewrap may not make namespaces here"

roots=$(mktemp -d) && trap 'rm -rf "$work" "$roots"' EXIT
chmod 755 "$roots"
root=$roots/root
user_id=1000 home=$work/home
mkdir home && chown -R $user_id "$work"

# made COMMAND...: a step without which the rest makes no sense.
made() {
    last_command="$*"
    "$@" >"$out" 2>"$err" || { code=$? && fail "the step failed" && exit 1; }
}
packages() { # KIND...: built, unless those in dist/ are wanted
    [ "${PACKAGES:-}" = kept ] || made "$project/tools/package" "$@"
}

# user COMMAND...: as a plain user of a root that is read-only, without a network. /dev/shm and /tmp are memory.
shared=$((64 << 20)) # bytes of /dev/shm: what docker and podman give
inside=()            # a command that starts another in a control group or a network
more=(--unshare-net) # more options of bwrap
user() {
    "${inside[@]}" bwrap --ro-bind "$root" / --proc /proc --ro-bind /sys /sys --dev /dev \
        --perms 1777 --size $shared --tmpfs /dev/shm --perms 1777 --tmpfs /tmp --bind "$work" "$work" --chdir "$PWD" \
        --unshare-pid --unshare-ipc --unshare-uts --die-with-parent --clearenv \
        --setenv PATH /usr/local/bin:/usr/bin:/bin --setenv HOME "$home" --setenv LANG C.UTF-8 "${more[@]}" \
        setpriv --reuid $user_id --regid $user_id --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs "$@"
}
runs() { # COMMAND...: as `run`, for any command
    last_command="$*"
    user "$@" >"$out" 2>"$err"
    code=$?
}
run() { runs trident "$@"; }

# A table, a tokenizer and a configuration.
make_inputs() {
    make_all
    make_table data/train.csv 300 0
    printf 'text,track,size,weight\nthe box was bad,late a box lost,,0.25\n' >row.csv
    chown -R $user_id "$work"
}
