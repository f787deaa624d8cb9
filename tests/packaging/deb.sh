# deb.sh - Debian's packages: lintian finds no error; apt installs them with what they need in a fresh root, where a
# plain user trains, predicts, compiles, imports and starts ranks by mpirun; purging them leaves nothing.
. "$(dirname "$0")/lib.sh"
needs lintian=lintian
packages deb
built=$(ls "$project"/dist/*.deb) || skip "PACKAGES=kept, and there are none in dist/"
is_built() { [[ $built == *"/$1_"* ]]; }

last_command=lintian
lintian --allow-root --fail-on error "$project"/dist/*.changes >"$out" 2>"$err"
code=$?
expect_code 0
cat "$out"

# ---- A root with apt and nothing else ----
mirror=${DEBIAN_MIRROR:-http://deb.debian.org}
cached=$roots/cached
[ -z "${DEBIAN_CACHE:-}" ] || cached=$DEBIAN_CACHE
mkdir -p "$cached/partial"
made mmdebstrap --variant=minbase --skip=download/empty --skip=essential/unlink --skip=cleanup/apt/cache \
    --setup-hook='mkdir -p "$1/var/cache/apt/archives"' --setup-hook="sync-in '$cached' /var/cache/apt/archives" \
    --customize-hook="sync-out /var/cache/apt/archives '$cached'" \
    bookworm "$root" "deb $mirror/debian bookworm main" "deb $mirror/debian bookworm-updates main" \
    "deb $mirror/debian-security bookworm-security main"
rm -rf "$root"/var/cache/apt/archives/*.deb

# as_root COMMAND...: in the root, which it may change, with a network.
as_root() {
    made bwrap --bind "$root" / --proc /proc --dev /dev --perms 1777 --tmpfs /tmp \
        --ro-bind /etc/resolv.conf /etc/resolv.conf \
        --ro-bind "$project/dist" /ours --bind "$cached" /var/cache/apt/archives --unshare-pid --die-with-parent \
        --clearenv --setenv PATH /usr/sbin:/usr/bin:/sbin:/bin --setenv DEBIAN_FRONTEND noninteractive \
        "$@"
}
installs() { as_root apt-get install -y --no-install-recommends "$@"; }
ours_in_root() { (cd "$root" && find . -xdev -name '*trident*' ! -path './var/lib/apt/*' ! -path './ours*'); }
echo "deb [trusted=yes] copy:/ours ./" >"$root/etc/apt/sources.list.d/ours.list"
as_root apt-get update

# ---- The program alone ----
installs trident
echo "trident and what it needs: $(sed -n 's/^Need to get //p; s/^After this/after this/p' "$out" | paste -sd ' ')"
expect "no compiler and no Python come with it" test ! -e "$root/usr/bin/gcc" -a ! -e "$root/usr/bin/python3"
for file in man/man1/trident.1.gz bash-completion/completions/trident zsh/vendor-completions/_trident \
    fish/vendor_completions.d/trident.fish doc/trident/copyright; do
    expect "$file" test -s "$root/usr/share/$file"
done
run doctor
expect_code 0
expect_text "$out" libyaml "no plug-in that loads"
make_inputs
run train --config config.json --data-path data --epochs 2 --batch-size 16 --output-dir run
expect_code 0
run train --config config.json --data-path data --epochs 2 --batch-size 8 --output-dir run2 --nproc-per-node 2
expect_code 0
losses_near run run2 1e-5 "two ranks"
run predict --checkpoint run --data-path row.csv
expect_code 0
tail -n 1 "$out" | cut -d , -f 2- >probabilities
expect "two probabilities" grep -q '^0[.][0-9]*,0[.][0-9]*$' probabilities

# ---- Programs in C ----
installs libtrident-dev gcc libc6-dev pkg-config
expect "pkg-config says the program's version" test \
    "$(user pkg-config --modversion trident)" = "$(user trident --version | awk '{ print $2; exit }')"
cp "$project"/examples/p*.c .
for library in trident :libtrident.a; do
    for example in plan predict; do
        runs sh -c "gcc -Wall -Werror $example.c -o $example \
            \$(pkg-config --static --cflags --libs trident | sed s/-ltrident/-l$library/)"
        expect_code 0
    done
    runs ./plan --config config.json --world-size 16 --pp-size 2 --shard zero1 --batch-size 4 --num-microbatches 4
    expect_code 0
    runs ./predict --checkpoint run "text=the box was bad" "track=late a box lost" weight=0.25
    expect_code 0
    expect "the probabilities of trident predict" test "$(cut -f 2 "$out" | paste -sd ,)" = "$(cat probabilities)"
done

# ---- Python ----
if is_built python3-trident; then
    installs python3-trident
    cat >user.py <<'END'
import trident
row = {"text": "the box was bad", "track": "late a box lost", "weight": 0.25}
print(trident.__version__)
print(",".join("%.9g" % p for p in trident.load("run").predict_proba([row]).tolist()[0]))
END
    runs python3 user.py
    expect_code 0
    expect "the program's version and probabilities" cmp -s "$out" \
        <(user trident --version | awk '{ print $2; exit }'; cat probabilities)
else
    echo "left out: python3-trident was not built"
fi

# ---- MPI ----
if is_built trident-mpi; then
    installs trident-mpi
    run doctor
    expect_text "$out" "plug-in built with Open MPI"
    mpi=(mpirun --oversubscribe --bind-to none -np 2)
    runs "${mpi[@]}" trident train --config config.json --data-path data --epochs 2 --batch-size 8 --output-dir run3
    expect_code 0
    expect "the losses of two ranks without MPI" diff <(losses run2) <(losses run3)
else
    echo "left out: trident-mpi was not built"
fi

as_root sh -c 'apt-get purge -y "*trident*" && apt-get autoremove -y'
rm -f "$root"/etc/apt/sources.list.d/ours.list
expect "purging leaves nothing: $(ours_in_root | paste -sd ' ')" test -z "$(ours_in_root)"
finish
