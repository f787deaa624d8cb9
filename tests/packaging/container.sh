# container.sh - the images, unpacked and run as a container is: a plain user, a read-only root, 64 MB of /dev/shm, no
# network, a control group's memory and cores where this machine lets us set them. Also by ssh from one to another.
. "$(dirname "$0")/lib.sh"
needs umoci=umoci jq=jq
packages deb
packages image

# unpacks NAME: $root is the image's root, as it was packed.
unpacks() {
    local archive=$project/dist/trident-$1.oci.tar
    [ -e "$archive" ] || skip "PACKAGES=kept, and there is no $archive"
    mkdir "$roots/$1.oci" && made tar -xf "$archive" -C "$roots/$1.oci"
    name=$(jq -r '.manifests[0].annotations["org.opencontainers.image.ref.name"]' "$roots/$1.oci/index.json")
    made umoci unpack --image "$roots/$1.oci:$name" "$roots/$1"
    root=$roots/$1/rootfs
    config=$roots/$1/config.json
    echo "image $name: $(($(stat -c %s "$archive") / 1000000)) MB, unpacked" \
        "$(($(du -sb "$root" | cut -f 1) / 1000000)) MB"
}
of_config() { jq -rc "$1" "$config"; }

unpacks cpu
home=/home/trident # nobody can write there
expect "a plain user" test "$(of_config .process.user.uid)" = $user_id
expect "the working folder" test "$(of_config .process.cwd)" = /work
expect "trident is what it runs: $(of_config .process.args)" test "$(of_config .process.args)" = '["trident","doctor"]'
expect "no lists of apt, nothing of the machine that built it" test -z "$(cd "$root" &&
    find var/lib/apt/lists etc/resolv.conf etc/hostname etc/machine-id -type f ! -name lock 2>/dev/null)"
make_inputs

runs sh -c 'echo x >/usr/bin/x || echo x >~/x'
expect_text "$err" "Read-only file system"
run doctor
expect_code 0
expect_text "$out" "64.0 MiB free"
train=(train --config config.json --data-path data --epochs 2 --batch-size)
run "${train[@]}" 16 --output-dir one
expect_code 0
run "${train[@]}" 8 --nproc-per-node 2 --output-dir two
expect_code 0
losses_near one two 1e-5 "two ranks"
run predict --checkpoint two --data-path row.csv
expect_code 0
shared=4096
run "${train[@]}" 8 --nproc-per-node 2 --output-dir small
expect_code 0
expect "ranks that share memory without a name need no /dev/shm" diff <(losses two) <(losses small)
shared=$((64 << 20))

# ---- Control groups ----
# in_limits MEMORY CORES: $inside starts a command with these limits; 1 where this machine has no groups to set.
in_limits() {
    local kind
    groups=()
    if [ -w /sys/fs/cgroup/memory/cgroup.procs ] && [ -w /sys/fs/cgroup/cpu/cgroup.procs ]; then
        for kind in memory cpu; do groups+=("/sys/fs/cgroup/$kind/trident-test.$$"); done
        mkdir "${groups[@]}" && echo "$1" >"${groups[0]}/memory.limit_in_bytes" &&
            echo $(($2 * 100000)) >"${groups[1]}/cpu.cfs_quota_us" || return
    elif grep -qw memory /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null; then
        groups=("/sys/fs/cgroup/trident-test.$$")
        mkdir "${groups[@]}" && echo "$1" >"${groups[0]}/memory.max" && echo "$(($2 * 100000)) 100000" \
            >"${groups[0]}/cpu.max" || return
    else
        return 1
    fi
    inside=(sh -c 'for group in $1; do echo $$ >"$group/cgroup.procs"; done; shift; exec "$@"' sh "${groups[*]}")
}
out_of_limits() { rmdir "${groups[@]}" 2>/dev/null; inside=(); }

if in_limits $((256 << 20)) 1 2>/dev/null; then
    run "${train[@]}" 16 --nproc-per-node auto --output-dir limited
    expect_code 0
    expect "the losses of one rank, for one core" diff <(losses one) <(losses limited)
    large='{"model_type": "bert", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, '
    large+='"intermediate_size": 4096, "max_position_embeddings": 64}'
    make_config large.json "\"primary_encoder\": $large"
    run train --config large.json --data-path data --output-dir large
    expect_code 71
    expect_text "$err" "the plan needs" "the limit of this control group is 256.0 MiB"
    out_of_limits
else
    out_of_limits
    echo "left out: control groups (this machine lets nobody set limits)"
fi

# ---- MPI ----
unpacks mpi
expect "sshd is what it runs: $(of_config .process.args)" test "$(of_config .process.args)" = '["trident-sshd"]'
expect "no private key of the machine that built it" test -z "$(find "$root/etc/ssh" -name 'ssh_host_*')"
mpi=(mpirun --bind-to none --oversubscribe)
runs "${mpi[@]}" -np 2 trident "${train[@]}" 8 --output-dir mpi
expect_code 0
expect "the losses of two ranks without MPI" diff <(losses two) <(losses mpi)
shared=$((1 << 20))
runs "${mpi[@]}" -np 2 trident "${train[@]}" 8 --output-dir mpi-small
expect "it ends" test "$code" != 0
expect_text "$err" "/dev/shm is too small for MPI: 2 ranks of this machine need" "--shm-size="
shared=$((64 << 20))
runs trident-sshd
expect_code 66
expect_text "$err" "there is no key pair in /home/trident/.ssh" "ssh-keygen"

# ---- Two containers, each with a network of its own, that share a key and the user's folder ----
id=$$
cleanup() {
    ip netns del "tri_a$id" 2>/dev/null
    ip netns del "tri_b$id" 2>/dev/null
    rm -rf "$work" "$roots"
}
make_networks() {
    ip netns add "tri_a$id" && ip netns add "tri_b$id" &&
        ip link add "ta$id" netns "tri_a$id" type veth peer name "tb$id" netns "tri_b$id" &&
        ip -n "tri_a$id" addr add 10.78.0.1/24 dev "ta$id" && ip -n "tri_b$id" addr add 10.78.0.2/24 dev "tb$id" &&
        ip -n "tri_a$id" link set lo up && ip -n "tri_b$id" link set lo up &&
        ip -n "tri_a$id" link set "ta$id" up && ip -n "tri_b$id" link set "tb$id" up
}
# in_container a|b KEYS: what follows runs in this container, with these keys.
in_container() {
    inside=(ip netns exec "tri_$1$id")
    more=(--hostname "trident-$1" --bind "$work/$2" /home/trident/.ssh)
}
# serves KEYS: the second container waits for connections.
serves() {
    in_container b "$1"
    user trident-sshd >sshd.log 2>&1 &
    server=$!
    until grep -q listening sshd.log || ! kill -0 $server 2>/dev/null; do sleep 0.05; done
    in_container a keys
}
ends() { kill $server && wait $server 2>/dev/null; }
trap cleanup EXIT
if make_networks >/dev/null 2>"$err"; then
    for keys in keys others; do
        runs sh -c "umask 077 && mkdir $keys && ssh-keygen -q -t ed25519 -N '' -f $keys/id_ed25519"
        expect_code 0
    done
    serves keys
    runs ssh 10.78.0.2 hostname
    expect_code 0
    expect_text "$out" trident-b
    runs "${mpi[@]}" --mca btl_tcp_if_include 10.78.0.0/24 --mca oob_tcp_if_include 10.78.0.0/24 \
        -H 10.78.0.1:1,10.78.0.2:1 -np 2 sh -c "cd '$work' && exec trident ${train[*]} 8 --output-dir containers"
    expect_code 0
    expect_text "$err" "2 ranks, 1 on this machine"
    losses_near two containers 1e-6 "two containers"
    ends
    serves others
    runs ssh 10.78.0.2 hostname
    expect "a host without the key is refused" test "$code" != 0
    expect_text "$err" "Host key verification failed"
    ends
else
    echo "left out: two containers (network namespaces are not allowed here: $(head -n 1 "$err"))"
fi
finish
