# Releases: the version stands in one place and all words agree with it, the exported symbols are those of the public
# headers, every file has a licence, the list of libraries is the same twice, and so is the tarball, which
# tools/verify-release finds to be the tag's, or not.
# timeout: 300
. "$(dirname "$0")/../lib/cli_lib.sh"
root=$(dirname "$TRI_BUILD")
[ -r "$root/tools/release.mk" ] || { echo "not a build folder inside the sources"; exit 77; }
say() { last_command=$1 code=0; }

# ---- The version
version=$(sed -n 's/^VERSION := //p' "$root/Makefile")
say "the version, $version"
run version
expect_text "$out" "trident $version"
released=$(sed -n 's/^## \([0-9][^ ]*\) - .*/\1/p' "$root/CHANGELOG.md" | head -n 1)
expect "CHANGELOG.md: the newest release is $released, the Makefile says $version" test "$released" = "$version"
for changelog in "$root"/debian/changelog "$root"/packaging/debian/changelog; do
    [ ! -e "$changelog" ] ||
        expect "$changelog begins with another version" grep -q "^trident ($version[-)~+]" <(head -n 1 "$changelog")
done
expect "trident.pc.in takes the version from the Makefile" grep -q '^Version: @VERSION@$' "$root/trident.pc.in"
places=$(cd "$root" && grep -rlF "\"$version\"" include src tools python packaging --include='*.[ch]' --include='*.py' \
    --include='*.toml' --include='*.in' 2>/dev/null)
expect "the version stands nowhere else, but in $places" test -z "$places"

# ---- Symbols
declared() {
    sed 's|/\*.*\*/||' "$root"/include/*.h | tr '\n' ' ' | grep -o 'TRI_API [^;]*;' |
        grep -oE '\btri_[a-z0-9_]+\(' | tr -d '(' | sort
}
say "libtrident.map against include/"
sed -n 's/^    \(tri_[a-z0-9_]*\);$/\1/p' "$root/libtrident.map" | sort >map
declared >headers
diff headers map >"$err"
expect "libtrident.map has the functions of the public headers" test ! -s "$err"
if [ -z "${TRI_SANITIZED:-}" ] && command -v nm >/dev/null; then
    say "what libtrident.so exports"
    nm -D --defined-only "$TRI_BUILD/libtrident.so" | awk '$2 != "A" { print $3 }' | sort >exported
    sed 's/@.*//' exported | diff - headers >"$err"
    expect "the library exports the functions of the public headers alone" test ! -s "$err"
    expect "each with the version that first had it" test "$(grep -vc '@@TRIDENT_[0-9.]*$' exported)" = 0
fi

# ---- Licences
say "REUSE.toml"
sed -n 's/^SPDX-License-Identifier = "\(.*\)"$/\1/p' "$root/REUSE.toml" | sed 's/ AND /\n/g' | sort -u >named
(cd "$root/LICENSES" && ls) | sed 's/\.txt$//' | sort | diff - named >"$err"
expect "each licence that is named has its text, and the other way round" test ! -s "$err"
expect "one row is for all files" grep -q '^path = "\*\*"$' "$root/REUSE.toml"
sed -n 's/^path = "\(.*\)"$/\1/p' "$root/REUSE.toml" | sed 's|/\?\*\*$||' | while read -r path; do
    [ -e "$root/$path" ] || echo "$path"
done >missing
expect "a path that is not there: $(cat missing)" test ! -s missing
expect "LICENSE is the text of LICENSES/" cmp -s "$root/LICENSE" "$root/LICENSES/Apache-2.0.txt"

# ---- What it is made of
if command -v python3 >/dev/null; then
    say "tools/sbom"
    SOURCE_DATE_EPOCH=1700000000 python3 "$root/tools/sbom" >sbom 2>"$err"
    expect_text sbom '"specVersion": "1.6"' "\"version\": \"$version\"" '2023-11-14T22:13:20Z' '"name": "utf8proc"'
    expect "no library has a version that only this machine has" test "$(grep -c '"purl"' sbom)" = 0
    expect "the same twice" cmp -s sbom <(SOURCE_DATE_EPOCH=1700000000 python3 "$root/tools/sbom")
fi

# ---- The tarball
for tool in git python3 gzip sha256sum; do
    command -v $tool >/dev/null || { echo "the tarball was left out: $tool is not installed"; finish; }
done
git -C "$root" rev-parse -q --verify HEAD >/dev/null 2>&1 || {
    echo "the tarball was left out: the sources are not a git repository"
    finish
}
name=trident-$version.tar.gz
make_tarball() {
    last_command="tools/dist --into $1"
    "$root/tools/dist" --into "$work/$1" >"$out" 2>"$err"
    code=$?
    expect_code 0
}
umask=$(umask) && umask 077
TZ=Asia/Tokyo make_tarball one
umask "$umask"
make_tarball two
expect "two builds give the same bytes" cmp -s "one/$name" "two/$name"
tar -tzf "one/$name" >list
expect "it has the sources and the list of libraries" grep -qx "trident-$version/sbom.cdx.json" list
expect "and their Makefile" grep -qx "trident-$version/Makefile" list
expect "it has no .ci" test "$(grep -c '/\.ci/' list)" = 0

# A clone with a tag: what it published is found to be the tag's, and a byte more is not.
git clone -q --shared "$root" clone 2>"$err" && git -C clone tag "v$version-test"
verify() {
    last_command="tools/verify-release $*"
    clone/tools/verify-release "$@" >"$out" 2>"$err"
    code=$?
}
mkdir changed && tar -xpzf "one/$name" -C changed && echo >>"changed/trident-$version/README.md"
tar -czf "changed/$name" --format=ustar --owner=0 --group=0 --numeric-owner -C changed "trident-$version"
verify "one/$name" "changed/$name" "v$version-test"
expect_code 1
expect_text "$out" "$name: the same as from v$version-test" "$name: DIFFERS" "trident-$version/README.md"
expect "only README.md differs" test "$(grep -c '^[<>]' "$out")" = 1
verify "one/$name" v0.0.0
expect_code 66
verify nowhere.tar.gz
expect_code 66
finish
