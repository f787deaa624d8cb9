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
