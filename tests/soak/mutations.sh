# Each mechanism against a fault is turned off, one at a time, in a copy of the sources; the test that stands for the
# fault must then fail, or not come to an end. Prints a table; exit 1 when a test did not notice.
#   TRI_BUILD=build tests/soak/mutations.sh [WORD]      only those whose row contains WORD
#   tests/soak/mutations.sh --check                     builds nothing; names rows that change no line (tools/lint)
set -u
cd "$(dirname "$0")/../.." || exit 1
if [ "${1:-}" = --check ]; then
    mutant() { sed "$4" "$3" | cmp -s - "$3" && echo "$3:1: tests/soak/mutations.sh: \"$4\" finds nothing here"; }
    . <(sed -n '/^mutant F/,/^echo/p' "$0" | sed '$d')
    exit 0
fi
source=$PWD build=$(cd "${TRI_BUILD:?run through tests/soak/run}" && pwd) only=${1:-}
copy=$(mktemp -d)
cleanup() {
    rm -rf "$copy"
    rm -f /dev/shm/trident.mutant
}
trap cleanup EXIT
cp -a Makefile libtrident.map src include tests tools fuzz examples "$copy" && cp -a "$build" "$copy/build" || exit 1
cd "$copy" || exit 1
limit=15 # seconds; the tests take less than five
known='' missed=0 rows=0
unset SOAK_CALLS SOAK_FLIPS SOAK_PAIRS # samples are enough here

make_test() {
    make -j2 BUILD=build "$@" >make.log 2>&1 || { tail -n 5 make.log && echo "mutations: does not build" && exit 1; }
}

# attempt TEST [FILTER]: a program of build/tests, or a script of tests/. In a session of its own: what a mutant leaves
# running ends with it.
attempt() {
    local command=("build/tests/$1" ${2:+"$2"}) code
    case $1 in *.sh) command=(env "TRI_BUILD=$copy/build" bash "tests/cli/$1") ;; esac
    setsid timeout -k 2 $limit "${command[@]}" >attempt.log 2>&1 </dev/null &
    local leader=$!
    wait $leader 2>/dev/null
    code=$?
    kill -9 -- -$leader 2>/dev/null
    return $code
}

# mutant FAULT MECHANISM FILE SED TEST [FILTER]
mutant() {
    local fault=$1 what=$2 file=$3 change=$4 test=$5 filter=${6:-} goals result
    case "$fault $what $test $filter" in *"$only"*) ;; *) return ;; esac
    case $test in *.sh) goals=(build/trident) ;; *) goals=("build/tests/$test") ;; esac
    if [[ $known != *" $test:$filter "* ]]; then # as it is, it passes
        make_test "${goals[@]}"
        attempt "$test" "$filter" || { tail -n 20 attempt.log &&
            echo "mutations: $test $filter fails without any mutation" && exit 1; }
        known+=" $test:$filter "
    fi
    sed -i "$change" "$file"
    cmp -s "$file" "$source/$file" && { echo "mutations: \"$change\" finds nothing in $file" && exit 1; }
    make_test "${goals[@]}"
    attempt "$test" "$filter"
    case $? in
    0) result="NOT NOTICED" && missed=$((missed + 1)) ;;
    124 | 137) result="caught: does not end" ;;
    *) result="caught: fails" ;;
    esac
    printf '%-4s  %-52s  %-58s  %s\n' "$fault" "$what" "$test $filter" "$result"
    rows=$((rows + 1))
    cp "$source/$file" "$file"
}

mutant F01 "a fork's death is judged by its parent" src/comm/start/forks.c \
    's/^        judge(family, i, how);/        if (how < 0) judge(family, i, how);/' test_ranks death_ends_all_waits
mutant F01 "a rank's death is judged by its supervisor" src/job/supervisor.c \
    's/if (WIFSIGNALED(status)) judge(s, i, status);/{}/' test_supervisor a_killed_rank_ends_all
mutant F01 "a peer's death is seen without a supervisor" src/comm/ops/watcher.c \
    's/^                    ended(watcher, i);/                    ;/' test_join death_is_seen_without_a_supervisor
mutant F01 "a wait looks at the abort word" src/comm/world/world.c \
    's/^    if (!atomic_load_explicit(&control->abort, memory_order_acquire)) return TRI_OK;/ '\
'   if (world->size) return TRI_OK;/' test_ranks death_ends_all_waits
mutant F05 "forks die with their parent" src/comm/start/forks.c \
    's/^    prctl(PR_SET_PDEATHSIG, SIGKILL);/    (void)parent;/' test_ranks ranks_die_with_their_parent
mutant F05 "ranks die with their supervisor" src/job/rank_process.c \
    's/prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && //' test_supervisor ranks_end_with_their_supervisor
mutant F01 "ranks that are left get another world" src/job/regroup.c \
    's/^    if (is_over || !f->ranks) {/    if (f->ranks >= 0) {/' test_regroup any_rank_may_die
mutant F01 "a world that fails before all met is followed by another" src/comm/link/regroup.c \
    's/^    for (int other = 1; other;) {/    for (int other = 1; other; other = 0) {/' \
    test_regroup deaths_while_others_regroup
mutant F01 "the memory with replicated state outlives its world" src/job/regroup.c \
    's/^    if (tri__kept_step(&s->segment) >= 0) {/    if (tri__kept_step(\&s->segment) > 1000) {/' \
    test_regroup all_may_die
mutant F01 "a rank that was started again is let in" src/job/regroup.c \
    's/^    atomic_store(&control->regroup, 1);/    (void)control;/' test_regroup the_dead_are_started_again
mutant F01 "only failures that a restart may cure end a world alone" src/job/regroup.c \
    's/ || tri__is_crash(failure.code, s->verdict->hung);/ || failure.code;/' test_regroup failures_that_end_all
mutant F01 "a world needs the fewest ranks that were asked for" src/job/regroup.c \
    's/ || f->ranks < s->what->min_ranks) f->ranks = 0;/) f->ranks = 0;/' test_regroup too_few_ranks_end_it
mutant F01 "whoever waits is told the end" src/job/regroup.c \
    's/ tri__regroup_say(s->child\[i\].socket, &end);/ (void)end;/' test_regroup a_spare_steps_in
mutant F06 "a rank that hangs is not taken along" src/job/regroup.c \
    's/^            tri__child_end(s, i, SIGKILL);/            (void)0;/' test_regroup failures_that_others_survive
mutant F29 "earlier worlds are closed" src/comm/link/open.c \
    's/^    for (int i = 0; i < 2; i++) tri__segment_close(&world->before\[i\]);/    (void)world;/' \
    test_regroup worlds_leave_nothing_behind
mutant F01 "a copy that comes from another machine is of no step" src/train/state/held_peer.c \
    's/^        tri__held_begin(w->held, step);/        ;/' test_partner the_next_machine_holds_every_area
mutant F01 "it is of none before its first byte may come" src/train/state/held_peer.c \
    '/^        tri__held_begin(w->held, step);/d; s/^        if (w->state) TRI_TRY(post(p, TRI_RECV.*/&\n'\
'        tri__held_begin(w->held, step);/' test_partner the_next_machine_holds_every_area
mutant F01 "a copy goes to another machine after it is complete" src/train/state/replicate.c \
    '/^    TRI_TRY(run(s, tri__session_first(s), planned->posted));/d' \
    test_partner a_session_goes_on_without_a_machine
mutant F01 "the state that goes with a copy is of its step" src/train/state/held_peer.c \
    's/tri__memory_text(p->area, copy, &bytes);/tri__memory_text(p->area, !copy, \&bytes);/' \
    test_partner the_next_machine_holds_every_area
mutant F01 "what ranks kept is not older than the last checkpoint" src/train/state/collect.c \
    's/^        if (step < committed) step = -1;/        if (step < committed - 1000) step = -1;/' \
    test_partner a_newer_checkpoint_wins
mutant F01 "a kept step has its copy's parity" src/train/state/collect.c \
    's/int all = step >= 0 && (step & 1) == parity;/int all = step >= 0;/' \
    test_partner a_step_of_the_other_parity_is_not_believed
mutant F01 "an area is read where it has the step" src/train/state/collect.c \
    's/^        if (area->base && kept\[c->copy\] != step + 1) area->base/        if (step < 0) area->base/' \
    test_partner a_copy_that_was_on_its_way_is_not_read
mutant F01 "a rank copies what a spare beside it lacks" src/train/state/collect.c \
    's/world->rank == from && from != to)/world->rank == from)/' test_partner the_machines_left_have_all_of_it
mutant F01 "all machines go on from one text of the state" src/train/state/collect.c \
    's/node_of\[source(c, 0)\]) c->at/node_of[source(c, 0)] \&\& c->n < 0) c->at/' \
    test_partner the_machines_left_have_all_of_it
mutant F01 "what is kept is not overwritten while it is copied" src/exec/run.c \
    's/^        TRI_TRY(keep_all(exec, program, begin, waits, step, times));/        (void)exec;/' test_exec_keep
mutant F06 "a rank that does not get on is reported" src/comm/ops/hang.c \
    's/^    if (worst.local >= 0) report_hung/    if (worst.local >= n) report_hung/' \
    test_ranks hang_of_a_thread_is_found
mutant F06 "a file call has its own limit" src/comm/ops/hang.c \
    's/^    if (who.in_call && !is_stopped(who.state)) who.over = who.silent - io;/    if (io < 0) return who;/' \
    test_hangs a_file_call_has_its_own_limit
mutant F06 "a process that is stopped in a file call is told apart" src/comm/ops/hang.c \
    "s/return state == 'T' || state == 't';/return state == 'X';/" test_hangs a_pipe_that_nobody_opens_is_named
mutant F08 "a file call that ended is progress" src/comm/ops/hang.c \
    's/^    if (calls != seen->calls) seen->calls = calls, .*/    seen->calls = calls;/' \
    test_hangs a_slow_disk_is_no_hang
mutant F06 "ranks that wait for one another are reported" src/comm/ops/hang.c \
    's/^    else if (unfinished && waiting == unfinished/    else if (unfinished < 0 \&\& waiting == unfinished/' \
    test_ranks deadlock_is_found
mutant F06 "the supervisor watches" src/job/supervisor.c \
    's/^    tri__control_watch(control, s->seen, s->what->log, -1);/    (void)s->seen;/' \
    test_supervisor a_hanging_rank_is_named
mutant F06 "ranks watch each other without a supervisor" src/comm/ops/watcher.c \
    's/^        tri__control_watch(watcher->control, watcher->seen, &watcher->log, watcher->local);//' \
    test_join hang_is_seen_without_a_supervisor
mutant F06 "ranks watch those of other machines" src/comm/link/link_alive.c \
    's/now - far->sign > most \* SILENCE)/now - far->sign > 1e9 * most * SILENCE)/' \
    test_exchange a_machine_that_is_silent_is_reported
mutant F08 "a watcher's own standstill does not count" src/comm/ops/hang.c \
    's/^    else if (stood > 0) seen->beat += stood, .*/    else if (stood > 1e9) seen->beat += stood;/' \
    test_ranks standstill_of_all_is_no_hang
mutant F09 "an error of one becomes everyone's" src/comm/start/ranks.c \
    's/^    if (status != TRI_OK && status != world->failed)$/    if (status == (tri_status)-1)/' \
    test_ranks error_of_one_ends_all_waits
mutant F09 "other machines are told of an error" src/comm/link/link_alive.c \
    's/if (elsewhere(world, r)) link->remote->note/if (elsewhere(world, r) \&\& r < 0) link->remote->note/' \
    test_exchange an_error_is_known_on_all_machines
mutant F10 "one failure is the first" src/comm/world/control_page.c \
    's/^    if (atomic_compare_exchange_strong(&control->failure.state, &empty, 1)) {/    if (empty == 0) {/' \
    test_ranks two_failures_keep_one_first
mutant F10 "a record that is not ended does not block" src/comm/world/control_page.c \
    's/tri__clock() - begin < WRITER_SECONDS;/begin + WRITER_SECONDS > 0;/' \
    test_ranks half_a_record_does_not_block
mutant F11 "collectives compare descriptors" src/comm/shm/collective.c \
    's/^        TRI_TRY(compare(group, shm, p));/        if (p->what.kind > 200) TRI_TRY(compare(group, shm, p));/' \
    test_mismatch
mutant F11 "messages compare descriptors" src/comm/shm/pairs.c \
    's/^    if (!tri__describe_same(&theirs, &message->what) || entry->bytes != message->bytes)/    if'\
' (theirs.kind > 200)/' test_mismatch
mutant F11 "messages of other machines compare descriptors" src/comm/link/link.c \
    's/int same = tri__describe_same(&it->note.what, &message->what) && /int same = /' \
    test_exchange a_send_that_differs_from_its_receive_is_refused
mutant F11 "one who left is missed" src/comm/shm/collective.c \
    's/^    if (!tri__world_left(group->world, group->local\[m\])) return TRI_OK;/    if (m >= 0) return TRI_OK;/' \
    test_mismatch one_who_left_is_missed
mutant F11 "the other end of a message is missed when it left" src/comm/shm/pairs.c \
    's/^    if (!entry \&\& peer_left(group, message) \&\& /    if (!entry \&\& message->bytes < 0 \&\& /' \
    test_mismatch one_who_left_is_missed
mutant F28 "/dev/shm is looked at before MPI starts" src/comm/mpi/load.c \
    's/if (size >= need && free >= each)/if (size + need + free >= each)/' test_exchange short_shared_memory_is_refused
mutant F28 "the shared memory is committed at the start" src/comm/world/segment.c \
    's/do failed = posix_fallocate(fd, 0, (off_t)now);/do failed = now == 0;/' test_segment file_is_private_and_sealed
mutant F28 "a heap commits what it gives" src/comm/world/heap.c \
    's/(failed = posix_fallocate(heap->fd, heap->file_at + (int64_t)from, (off_t)more)) == EINTR/(failed ='\
' more == 0) == EINTR/' test_segment shortage_is_no_bus_error
mutant F29 "nothing has a name" src/comm/world/segment.c \
    's|^    int fd = memfd_create|    close(open("/dev/shm/trident.mutant", O_CREAT \| O_WRONLY, 0600));\n&|' test_crash
mutant F30 "the memory is its user's alone" src/comm/world/segment.c \
    's/fchmod(fd, 0600) != 0 || //' test_segment file_is_private_and_sealed
mutant F30 "its size is sealed" src/comm/world/segment.c \
    's/^    if ((seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))/    if (seals == -2)/' \
    test_segment refuses_a_size_that_can_change
mutant F30 "its header is checked" src/comm/world/segment.c \
    's/^    if (!header_fits(header, (uint64_t)info.st_size))/    if (!header_fits(header,'\
' (uint64_t)info.st_size) \&\& seals == -2)/' test_segment refuses_every_damaged_field
mutant F30 "the page's count of ranks is not trusted" src/comm/world/control_page.c \
    's/^    return n < 0 ? 0 : n > TRI_RANKS_PER_NODE ? TRI_RANKS_PER_NODE : n;/    return n;/' \
    test_segment believes_no_count_of_ranks
mutant F30 "a waker does not trust it" src/comm/world/idle.c \
    's/^    if (!local \&\& n > TRI_RANKS_PER_NODE) n = TRI_RANKS_PER_NODE;//' test_segment believes_no_count_of_ranks
mutant F30 "a record's text ends" src/comm/world/control_page.c \
    's/^    out->text\[TRI_FAILURE_TEXT - 1\] = 0;//' test_segment ends_a_record_that_has_no_end
[ "$(id -u)" != 0 ] || # only root can be another user
    mutant F30 "another user is shown the door" src/comm/launchers/rendezvous.c \
        's/return peer_of(fd).uid == geteuid();/return peer_of(fd).uid != (uid_t)-1;/' \
        test_segment strangers_are_refused
mutant F31 "open files are counted at the start" src/job/supervisor.c \
    's/limit.rlim_cur >= (rlim_t)need)/limit.rlim_cur > 0 || need < 0)/' test_supervisor limits_are_said_at_the_start
mutant F02 "a checkpoint is made beside its name" src/checkpoint/checkpoint_save.c \
    's/TRI_TEXT(64, ".tmp.%ld", (long)getpid())/""/' \
    test_commit every_call_may_fail
mutant F02 "a run that was killed before the mark of the best sets it" src/train/state/resume.c \
    's/^    return mend_mark(s);/    return (void)mend_mark, TRI_OK;/' cli_checkpoint.sh
mutant F02 "what a killed run left is removed" src/checkpoint/folders.c \
    's/^        else TRI_TRY(tri__folder_remove_all(path));/        ;/' \
    test_commit every_call_may_fail
mutant F15 "a failed fsync condemns a checkpoint" src/checkpoint/safetensors_write.c \
    's/^    if (status == TRI_OK && tri__file_sync(out.fd, path))/    if (tri__file_sync(out.fd, path) > 0)/' \
    test_commit every_call_may_fail
mutant F13 "ranks vote before a commit" src/train/state/saver.c \
    's/^        if (all\[r\] != TRI_OK && all\[r\] != PENDING && /        if (all[r] == 12345 \&\& /' \
    test_commit every_call_may_fail
mutant F16 "files are hashed" src/checkpoint/manifest.c \
    's/strcmp(hex, hash) != 0 ? damaged/hash[0] == 1 ? damaged/' test_damage
mutant F17 "the manifest's own bytes are hashed" src/checkpoint/manifest.c \
    's/^    return memcmp(hex, stated, HEX) != 0/    return stated[0] == 1/' test_damage
mutant F12 "a save in the background has a copy of its own" src/train/state/saver.c \
    's/^    const tri_piece \*const \*from = saver->background ? (const tri_piece \*const \*)saver->copy :'\
' saver->piece;/    const tri_piece *const *from = saver->piece;/' test_commit in_the_background_too
mutant F21 "changes that make another run are refused" src/settings/changes.c \
    's/^    int refused = effect == TRI_EFFECT_RUN && !names(allowed, key);/    int refused = effect =='\
' TRI_EFFECT_RUN \&\& allowed->n < 0;/' test_reload changes_are_told_apart
mutant F36 "other data is refused" src/train/state/resume.c \
    's/.data = (data && strcmp(data, digest) != 0) ||/.data = (data \&\& digest[0] == 1) ||/' \
    test_reload other_data_is_refused
mutant F48 "ranks compare digests" src/comm/ops/agree.c \
    's/^    if (odd < 0) return TRI_OK;/    if (odd < world->size) return TRI_OK;/' test_ranks odd_rank_is_named
mutant F48 "a session's ranks agree before they begin" src/train/session.c \
    's/^    TRI_TRY(tri__engine_agree(/    if (s->at.step < 0) TRI_TRY(tri__engine_agree(/' cli_disagree.sh
mutant F38 "-0 is a negative number" src/checkpoint/safetensors.c \
    "s/^        else if (text\[i\] == '-' \&\& !quoted)/        else if (text[i] == 1)/" test_foreign
mutant F38 "a header becomes no gigabytes" src/base/json_read.c \
    's/^        if (memory > TRI_LIMIT_JSON_MEMORY)/        if (memory < 0)/' test_foreign
mutant F27 "limits of all control groups up to the root" src/base/cgroup.c \
    's/^        if (!slash) return;/        return;/' test_cgroup a_slice_above_counts
mutant F01 "a rank's death under a foreign launcher is no bug" src/comm/ops/watcher.c \
    's/rank_of\[i\], TRI_KILLED,/rank_of[i], TRI_INTERNAL,/' test_join death_is_seen_without_a_supervisor
echo "$rows mechanisms turned off, $missed not noticed"
[ "$missed" = 0 ] && [ "$rows" -gt 0 ]
