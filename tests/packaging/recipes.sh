# recipes.sh - the recipes that nothing here can build, read by their own languages: Nix also finds the version.
cd "$(dirname "$0")/../../packaging" || exit 1
read_ones=0 failures=0
version=$(sed -n 's/^VERSION := //p' ../Makefile)

# reads WHAT PROGRAM COMMAND...: the recipe, if this program is here
reads() {
    local what=$1 program=$2
    shift 2
    command -v "$program" >/dev/null || { echo "left out: $what ($program is not installed)" && return; }
    read_ones=$((read_ones + 1))
    "$@" >/dev/null && echo "read: $what" || { failures=$((failures + 1)) && echo "FAILED: $what"; }
}
nix_version() {
    [ "$(nix-instantiate --eval --strict -E '(import ./nix/default.nix { pkgs = {
        stdenv.mkDerivation = x: x; lib.cleanSource = x: x; lib.licenses.asl20 = "Apache-2.0"; lib.optional = a: b: [];
        pkg-config = 1; utf8proc = 1; libyaml = 1; lz4 = 1; xxHash = 1; zlib = 1; zstd = 1; }; }).version')" = \
        "\"$version\"" ]
}
conda_version() {
    VERSION=$version python3 - <<'END'
import os, re, jinja2, yaml
def load_file_regex(load_file, regex_pattern, from_recipe_dir):
    return re.search(regex_pattern, open(os.path.join("conda", load_file)).read())
text = jinja2.Template(open("conda/meta.yaml").read()).render(
    load_file_regex=load_file_regex, compiler=lambda language: language, stdlib=lambda language: language)
recipe = yaml.safe_load(text)
assert recipe["package"]["version"] == os.environ["VERSION"], recipe["package"]
END
}
reads "conda/build.sh" sh sh -n conda/build.sh
if python3 -c 'import jinja2, yaml' 2>/dev/null; then reads "conda/meta.yaml and its version" python3 conda_version
else echo "left out: conda/meta.yaml (python3-jinja2 or python3-yaml is not installed)"; fi
reads "nix/default.nix" nix-instantiate nix-instantiate --parse nix/default.nix
reads "nix/default.nix and its version" nix-instantiate nix_version
reads "homebrew/trident.rb" ruby ruby -c homebrew/trident.rb
reads "spack/package.py" python3 python3 -c 'compile(open("spack/package.py").read(), "package.py", "exec")'
echo "$read_ones read, $failures failures"
[ "$failures" = 0 ]
