# A sample of tests/shortage/run --calls: one system call fails in each run of a command; the run goes on correctly, or
# ends with the right exit code, and what is committed stays whole.
# timeout: 180
set -u
[ -z "${TRI_SANITIZED:-}" ] || { echo "make soak PARTS=calls sweeps the sanitizer's build"; exit 77; }
exec bash "$(dirname "$0")/../shortage/run" --calls "${TRI_BUILD:?run through tests/run}" "${SHORTAGE_SAMPLE:-10}" \
    resume ranks_async prune
