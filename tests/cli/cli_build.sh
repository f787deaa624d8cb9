# Building: missing dependencies are named, and installed only on request. Nothing is really installed here: compilers
# and apt-get are stubs that record their arguments.
. "$(dirname "$0")/../lib/cli_lib.sh"
root=$(dirname "$TRI_BUILD")
[ -x "$root/tools/deps" ] || { echo "not a build folder inside the sources"; exit 77; }
mkdir tools
cat >tools/cc <<'END'
#!/bin/sh
program=$(cat)
for name in $LACKS; do case "$program $*" in *"$name"*) exit 1 ;; esac; done
END
cat >tools/apt-get <<'END'
#!/bin/sh
echo "apt-get $*" >>"$NOTES"
END
cat >tools/sudo <<'END'
#!/bin/sh
[ "$1" = -n ] && shift && exec "$@"
exit 1
END
chmod +x tools/*
export NOTES=$work/notes
unset TRIDENT_NO_INSTALL

# deps "LACKING" ARGS...: tools/deps on a machine without these.
deps() {
    last_command="tools/deps $2"
    rm -f "$NOTES"
    LACKS=$1 CC=$work/tools/cc PATH=$work/tools:$PATH "$root/tools/deps" $2 >"$out" 2>"$err"
    code=$?
}

deps "" ""
expect_code 0
deps "cmocka" ""
expect_code 0 # only tests need it
deps "cmocka" "--tests"
expect_code 71
expect_text "$err" "missing: libcmocka-dev" "tools/deps --install --tests"
deps "utf8proc" ""
expect_code 71
expect_text "$err" "missing: libutf8proc-dev" "tools/deps --install"
expect "looking installs nothing" test ! -e "$NOTES"
TRIDENT_NO_INSTALL=1 deps "utf8proc" --install
expect_code 71
expect "TRIDENT_NO_INSTALL=1 installs nothing" test ! -e "$NOTES"
deps "utf8proc" --install
expect_text "$err" "will install with apt-get: libutf8proc-dev" "installed, but a trial link still fails"
expect_text "$NOTES" "apt-get update" "install -y --no-install-recommends libutf8proc-dev"

# The libraries of compressed tables are optional. demo and test install them if they can.
deps "zlib zstd lz4 yaml" "--write found.mk"
expect_code 0
expect "none is taken for found" test "$(grep -c '^ZLIB := $\|^ZSTD := $\|^LZ4 := $\|^YAML := $' found.mk)" = 4
deps "zstd.h" "--install --write found.mk"
expect_code 0
expect_text "$NOTES" "install -y --no-install-recommends libzstd-dev"
expect_text found.mk "ZLIB := -lz" "LZ4 := -llz4"
rm -f found.mk

# What was found is written again only when it changed; without pkg-config the usual names serve.
printf '#!/bin/sh\nexit 1\n' >tools/pkg-config && chmod +x tools/pkg-config
deps "" "--write found.mk"
expect_text found.mk "PKG_LIBS := -lutf8proc"
before=$(stat -c %y found.mk)
deps "" "--write found.mk"
expect "found.mk is left alone" test "$before" = "$(stat -c %y found.mk)"
printf '#!/bin/sh\n' >tools/mpicc && chmod +x tools/mpicc
deps "" "--write found.mk"
expect_text found.mk "MPI := $work/tools/mpicc"

# A build without the libraries of compressed tables: what needs one is refused by name. Only the files that differ are
# compiled; the rest is the library that is there.
if [ -z "${TRI_SANITIZED:-}" ] && command -v gzip >/dev/null; then
    eval "set -- $(cat "$TRI_BUILD/flags")"
    words=() objects=()
    for word; do case $word in -DTRI_HAS_*) ;; *) words+=("$word") ;; esac; done
    last_command="a build without zlib, zstd, lz4 and libyaml"
    for file in src/data/table/{packed,unpack}.c src/settings/yaml.c bench/table_rows.c; do
        (cd "$root" && "${words[@]}" -O0 -c "$file" -o "$work/$(basename "$file" .c).o") >"$out" 2>"$err"
        objects+=("$(basename "$file" .c).o")
    done
    "${words[@]}" -o without "${objects[@]}" "$TRI_BUILD/libtrident.a" -lutf8proc -lm >"$out" 2>"$err"
    code=$?
    expect_code 0
    printf 'a,b\n1,2\n' | gzip >t.csv.gz
    ./without t.csv.gz "$root/tests/golden/arrow/"{table.csv.zst,lz4.feather,types.arrow} >"$out" 2>"$err"
    expect_text "$out" "2 t.csv.gz is compressed with gzip" "apt-get install zlib1g-dev" \
        "table.csv.zst is compressed with zstd" "apt-get install libzstd-dev" \
        "lz4.feather is compressed with lz4" "apt-get install liblz4-dev"
    expect "what needs none is read" test "$(tail -n 1 "$out")" = ok
    cat >yaml_file.c <<'END'
#include "settings/settings.h"
#include <stdio.h>
int main(int argc, char **argv) {
    tri_settings s;
    const char *const args[] = {"--accelerate", argv[argc - 1]};
    int n, code = tri__settings_init(&s) == TRI_OK ? tri__settings_parse(&s, "train", 2, args, NULL, 0, &n) : 1;
    printf("%d %s\n", code, code ? tri_error() : "read");
    return 0;
}
END
    printf 'num_processes: 2\n' >a.yaml
    printf '{"num_processes": 2}\n' >a.json
    (cd "$root" && "${words[@]}" -O0 -c "$work/yaml_file.c" -o "$work/yaml_file.o") >"$out" 2>"$err"
    "${words[@]}" -o yaml_file yaml_file.o yaml.o "$TRI_BUILD/libtrident.a" -lutf8proc -lm >"$out" 2>"$err"
    { ./yaml_file a.yaml && ./yaml_file a.json; } >yaml.out
    expect_text yaml.out "2 a.yaml: this build has no libyaml: apt-get install libyaml-dev" "0 read"
fi

# Every target but demo and test only names what is missing, before it compiles anything.
if command -v make >/dev/null && [ -z "${TRI_SANITIZED:-}" ]; then
    last_command="make all"
    LACKS=utf8proc PATH=$work/tools:$PATH make -C "$root" BUILD="$work/none" CC="$work/tools/cc" all >"$out" 2>"$err"
    code=$?
    expect_code 2
    expect_text "$err" "missing: libutf8proc-dev"
    expect "nothing was compiled" test ! -d "$work/none/src"
    expect "nothing was installed" test ! -e "$NOTES"
fi
finish
