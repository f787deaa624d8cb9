# living.sh - what soaks that kill ranks share. Source it; $work/pipe is a fifo that nobody writes to.
tick() { read -r -t "$1" <>"$work/pipe" || :; } # a sleep that starts no process

# Into $ranks: the living ranks of $pid. Not every kernel lists the children of a process.
living() {
    local p stat words=()
    ranks=()
    if [ -e /proc/$$/task/$$/children ]; then
        read -r -a words <"/proc/$pid/task/$pid/children" # without a newline at its end
    else
        words=($(ps -o pid= --ppid "$pid"))
    fi
    for p in "${words[@]}"; do
        read -r stat <"/proc/$p/stat" && stat=${stat##*) } && [[ ${stat:0:1} != [ZX] ]] && ranks+=("$p")
    done
} 2>/dev/null

# $jobs of `worker`, from the first seed that is not in $state/runs on; waits for all of them.
start_workers() {
    local i first workers=()
    first=$(awk '$3 > n { n = $3 } END { print n + 1 }' "$state/runs")
    for ((i = 0; i < jobs; i++)); do
        worker $((first + i)) &
        workers+=($!)
    done
    for i in "${workers[@]}"; do wait "$i"; done
}
