# cli_choosing.sh - rows of docs/guide/choosing.md are what `trident choose` says now.
# timeout: 240
project=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../lib/cli_lib.sh"
for row in "minilm 2" "base 1" "oneb 1"; do
    read -r model gpus <<<"$row"
    line=$("$project/tools/choosing" "$TRI_BUILD" row "$model" "$gpus")
    expect "docs/guide/choosing.md has \"$line\" ($row): tools/choosing build write makes its tables anew" \
        grep -qxF -- "$line" "$project/docs/guide/choosing.md"
done
finish
