# trident report: the page of one run and of several, what train leaves in its folder, folders that are damaged, cut off
# or no runs, 100,000 steps. tests/unit/test_run_data.c checks the data itself.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
common=(train --config config.json --data-path data --threads 1 --batch-size 16 --quiet)

run "${common[@]}" --output-dir run --epochs 2
expect_code 0
expect "train leaves a page" test -s run/report.html
expect "of a finished run" grep -q '"state":"finished"' run/report.html
expect "a row of each validation row" test "$(wc -l <run/validation-best.csv)" = 33
expect_text run/validation-last.csv 'row,label,p_0,p_1'
run "${common[@]}" --output-dir plain --epochs 1 --no-report --lr 2e-3
expect_code 0
expect "--no-report" test ! -e plain/report.html

# The page again, elsewhere: the same data.
run report run -o page.html
expect_code 0
expect_text "$err" 'run  finished: 12 steps in'
expect_text "$out" 'page.html ('
for key in loss learning_rate grad_norm step_ms; do
    expect_text page.html "\"$key\":{\"step\":[1,2,3,4,5,6,7,8,9,10,11,12]"
done
expect "below 1 MB" test "$(wc -c <page.html)" -lt 1000000
expect_text page.html '"confusion":[[' '"roc":[{' '"reliability":{' '"timeline":{' '"modules":{' '"binding":{"kind":'
expect "no rows of the data" sh -c '! grep -q "\"worst\"" page.html'
run report run --rows 3 -o rows.html
expect_code 0
expect_text rows.html '"worst":[{"row":' '"uncertain":[{"row":' '"fields":{"text":'

run report run plain
expect_code 0
expect "several runs: the page is here" test -s report.html
expect_text report.html '"name":"run"' '"name":"plain"'
run report run --json
expect_code 0
expect_text "$out" '"state":"finished"'

# A run that fails, or is stopped, leaves its page too.
run "${common[@]}" --output-dir broken --epochs 1 --lr 1e30
expect "it fails" test "$code" != 0
expect_text broken/report.html '"state":"failed"'

# What only the report reads is no reason to end a run.
mkdir -p blocked/profile-rank0.json blocked/validation-last.csv blocked/report.html
run "${common[@]}" --output-dir blocked --epochs 2
expect_code 0
expect_text blocked/metrics.jsonl 'profile-rank0.json: it is not a regular file' \
    'validation-last.csv: it is not a regular file'
expect_text "$err" 'there is no report: '
expect "each warning once" test "$(grep -c 'not a regular file' blocked/metrics.jsonl)" = 2

# Profiles of an earlier start on more ranks are not of this run.
cp -r run fewer
sed 's/"world": *1/"world":2/; s/"rank": *0/"rank":1/' run/profile-rank0.json >fewer/profile-rank1.json
run report fewer --json
expect_text "$out" '"profile":{"world":1,"n":1,'

# Damaged and cut off: what is missing is said, the rest is shown.
cp -r run cut
head -c 5100 run/metrics.jsonl >cut/metrics.jsonl
echo '{' >cut/summary.json
head -c 100 run/profile-rank0.json >cut/profile-rank0.json
head -c 60 run/validation-best.csv >cut/validation-best.csv
run report cut
expect_code 0
expect_text "$err" 'missing: summary.json cannot be read' 'missing: profile-rank0.json cannot be read' \
    'missing: validation-best.csv cannot be read' 'missing: metrics.jsonl ends in the middle of a line'
expect_text cut/report.html '"loss":{"step":[1,2'

rejects 2 report
rejects 66 report nowhere
rejects 65 report data
rejects 65 report config.json

# 100,000 steps: thinned, and quick.
mkdir long && awk 'BEGIN {
    for (i = 1; i <= 100000; i++) {
        printf "{\"ts\":%d.5,\"event\":\"train\",\"step\":%d,\"epoch\":%.6g,\"loss\":%.9g,", \
            1700000000 + i, i, i / 1000, 1 / sqrt(i)
        printf "\"learning_rate\":%.9g,\"grad_norm\":%.9g,\"step_ms\":%.9g,\"idle_share\":0.25}\n", \
            1e-5, 1 + i % 7, 20 + i % 3
        if (i % 5 == 0) printf "{\"ts\":%d,\"event\":\"checkpoint\",\"step\":%d,\"path\":\"checkpoint-%d\"}\n", \
            1700000000 + i, i, i
    }
}' >long/metrics.jsonl
run report long
expect_code 0
expect_text long/report.html '"of":100000' '"step":100000'
expect "below 1 MB" test "$(wc -c <long/report.html)" -lt 1000000
finish
