# A sample of tests/shortage/run: one allocation fails in each run of a command; exit 71 with a message, or the result
# of an undisturbed run.
# timeout: 180
set -u
[ -z "${TRI_SANITIZED:-}" ] || { echo "sanitizers bring their own malloc"; exit 77; }
exec bash "$(dirname "$0")/../shortage/run" "${TRI_BUILD:?run through tests/run}" "${SHORTAGE_SAMPLE:-2}" \
    train resume ranks split sweep eval members predict explain importance digest ls verify diff prune export inspect \
    tables tokenize plan simulate mesh vocab
