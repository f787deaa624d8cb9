# What `make install` installs suffices for a user's program: each example is built with the installed headers and
# library through pkg-config, as C and as C++, and runs; the headers compile with pedantic warnings.
# timeout: 240
. "$(dirname "$0")/../lib/cli_lib.sh"
root=$(dirname "$TRI_BUILD")
[ -r "$root/Makefile" ] || { echo "not a build folder inside the sources"; exit 77; }
[ -z "${TRI_SANITIZED:-}" ] || { echo "programs without sanitizers cannot use a library with them"; exit 77; }
for tool in cc c++ pkg-config; do
    command -v $tool >/dev/null || { echo "$tool is not installed"; exit 77; }
done
build=${TRI_BUILD#"$root"/}

# With other flags than this folder was built with, make would compile it anew: the file of flags says so.
cp -p "$TRI_BUILD/flags" flags
make -C "$root" BUILD="$build" "$build/flags" >"$out" 2>"$err"
if ! cmp -s flags "$TRI_BUILD/flags"; then
    cp -p flags "$TRI_BUILD/flags"
    echo "this folder was built with another compiler or other flags than make would use now"
    exit 77
fi

# installs DESTDIR PREFIX
installs() {
    last_command="make install DESTDIR=$1 PREFIX=$2"
    make -C "$root" BUILD="$build" DESTDIR="$1" PREFIX="$2" install >"$out" 2>"$err"
    code=$?
    expect_code 0
    expect "nothing is compiled on the way" test "$(grep -c '^  CC ' "$out")" = 0
}
installs "$work/a folder" "/opt/tri dent"
expect "the binary runs where it was installed" test -n "$("$work/a folder/opt/tri dent/bin/trident" --version)"
expect "pkg-config's file" grep -q 'prefix=/opt/tri dent' "$work/a folder/opt/tri dent/lib/pkgconfig/trident.pc"

installs "$work/root" /opt/trident
export PKG_CONFIG_PATH=$work/root/opt/trident/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/root
version=$("$trident" --version | awk '{ print $2; exit }')
expect "pkg-config finds this version" test "$(pkg-config --modversion trident)" = "$version"
flags=$(pkg-config --cflags --libs trident)

# builds LANGUAGE FLAGS... FILE OUT
builds() {
    local compiler=$1
    shift
    last_command="$compiler $*"
    "$compiler" "$@" >"$out" 2>"$err"
    code=$?
    expect_code 0
}
for header in trident.h trident_comm.h trident_mesh.h trident_table.h; do
    printf '#include <%s>\nint main(void) { return tri_version() == 0; }\n' $header >user.c
    builds cc -std=c99 -Wall -Wextra -Werror -pedantic user.c -o user-c $flags
    builds c++ -x c++ -std=c++11 -Wall -Wextra -Werror -pedantic user.c -x none -o user-c++ $flags
done
for example in loop mesh plan predict ranks table; do
    builds cc -std=c11 -Wall -Wextra -Werror "$root/examples/$example.c" -o $example-c $flags
    builds c++ -x c++ -std=c++20 -Wall -Wextra -Wno-missing-field-initializers -Werror "$root/examples/$example.c" \
        -x none -o $example-c++ $flags
done

# runs PROGRAM ARGS...: a user's program beside the installed library.
runs() {
    last_command="$*"
    LD_LIBRARY_PATH=$work/root/opt/trident/lib "./$@" >"$out" 2>"$err"
    code=$?
    expect_code 0
}
make_all
for language in c c++; do
    runs ranks-$language 3
    expect_text "$out" "rank 2 of 3: sum 6, squares 0 1 4"
    runs loop-$language --config config.json --data-path data --epochs 1 --batch-size 16 --output-dir own-$language
    expect_text "$err" "saved own-$language/checkpoint-"
    cp "$out" losses-$language
    runs plan-$language --config config.json --world-size 16 --pp-size 2 --tp-size 2 --shard zero1 --batch-size 4 \
        --num-microbatches 4
    expect_text "$err" "checked: the programs of 16 ranks fit together"
    cp "$out" program-$language
    runs predict-$language --checkpoint own-$language "text=the box was bad" "track=late a box lost" weight=0.25
    cp "$out" row-$language
    runs table-$language inspect memory:rows
    expect_text "$out" review price bought
done
expect "the same losses from C and from C++" cmp -s losses-c losses-c++
expect "the same program from C and from C++" cmp -s program-c program-c++
printf 'text,track,size,weight\nthe box was bad,late a box lost,,0.25\n' >row.csv
run predict --checkpoint own-c --data-path row.csv
expect "the probabilities of trident predict" test \
    "$(cut -f 2 row-c | paste -sd ,)" = "$(tail -n 1 "$out" | cut -d , -f 2-)"
expect "the same probabilities from C and from C++" cmp -s row-c row-c++
run plan --config config.json --world-size 16 --pp-size 2 --tp-size 2 --shard zero1 --batch-size 4 \
    --num-microbatches 4 --print-program 0
expect "the program that trident plan prints" cmp -s "$out" program-c
finish
