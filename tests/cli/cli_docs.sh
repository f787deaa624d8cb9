# timeout: 240
# The commands of README.md and docs/ run as written, and links are valid (tests/docs). Then a page with mistakes checks
# that each kind of mistake is found, with its line.
project=$(cd "$(dirname "$0")/../.." && pwd)
if [ -n "${TRI_SANITIZED:-}" ]; then
    echo "a sanitizer's build is too slow for it"
    exit 77
fi
. "$project/tests/lib/cli_lib.sh"
docs() {
    last_command="tests/docs $*"
    "$project/tests/docs" "$TRI_BUILD" "$@" >"$out" 2>"$err"
    code=$?
}

docs
grep '^FAILED' -A 14 "$out"
tail -n 1 "$out"
expect_code 0

# What pages name exists: files of the tree by their paths, functions in the files named with them. docs/extending has
# names of what it adds. Prints what is missing.
named_files() {
    (cd "$project" && grep -rhoE '`(src|tests|tools|bench|examples|include|configs)/[a-z_0-9./*-]+`' README.md docs \
        src/*/README.md --exclude-dir=extending | tr -d '`' | sort -u |
        while read -r path; do ls -d $path >/dev/null 2>&1 || echo "$path"; done)
}
named_functions() {
    (cd "$project" && grep -ohE '`tri__[a-z_0-9]+` *\(`[a-z/_]+\.c`\)' docs/internals/architecture.md | tr -d '`()' |
        while read -r name file; do grep -qE "^[a-z].*\b$name\(" "src/$file" || echo "$name $file"; done)
}
expect "pages name files that are not there: $(named_files | tr '\n' ' ')" test -z "$(named_files)"
expect "architecture.md: not there: $(named_functions | tr '\n' ' ')" test -z "$(named_functions)"

# The instructions that architecture.md shows are printed so; an ellipsis stands for any text.
. "$project/tests/frozen.d/inputs.sh"
mkdir architecture && cd architecture && make_inputs && run plan --config base.json --world-size 2 --shard zero1 \
    --print-program 0
sed -n 's/^    \([0-9][0-9]* .*\)/\1/p' "$project/docs/internals/architecture.md" >shown
expect "architecture.md shows instructions" test -s shown
while read -r line; do
    pattern=$(sed 's/[][\.*^$]/\\&/g; s/ *… */.*/g' <<<"$line")
    expect "architecture.md: $line" grep -q "^$pattern" "$out"
done <shown
cd ..

cat >bad.md <<'P'
# A page with mistakes

```sh
trident mesh --world-size 4
trident mesh --wrold-size 4
```

<!-- docs-test: exit 2 -->
```console
$ trident mesh --world-size 4 \
    --pp-size 2
```

<!-- docs-test: skip needs a reason -->
```sh
false
```

[nowhere](nowhere.md), [no heading](#nothing), [a heading](#a-page-with-mistakes)
P
printf '%0127d\n' 0 >>bad.md
docs "$work/bad.md"
expect_code 1
expect_text "$out" "bad.md:5: exit 2" "command: trident mesh --wrold-size 4" "bad.md:9: exit 0, expected 2" \
    "bad.md:15: needs a reason" "bad.md:19: link to nowhere.md, which is not there" "has no heading #nothing" \
    "bad.md:20: 127 columns" "0 blocks ran, 5 failed, 1 skipped"
finish
