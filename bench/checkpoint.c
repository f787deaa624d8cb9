/* checkpoint.c - how fast a state is saved and loaded: compared with writing and fsyncing the same bytes by as many
 * processes, and with one memcpy; and loading a whole state of 220 million parameters from the page cache.
 *
 *   checkpoint [MILLIONS [ROUNDS [FOLDER]]]   one JSON object per figure; exit 1 if a target is missed
 *                                             (bench/README.md) */
#include "train/state/saver.h"

#include "measure.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { TENSORS = 200, RANKS_MAX = 2, ROUNDS_MAX = 16 };

/* Shared by all ranks of a measurement; figures are returned in memory that forks share. */
typedef struct job {
    const char *folder;
    int64_t elements;              /* of the model; the state has three times as many */
    int rounds;
    double save[ROUNDS_MAX], raw[ROUNDS_MAX], stall[ROUNDS_MAX], copy[ROUNDS_MAX]; /* seconds, of the slowest rank */
    double load[ROUNDS_MAX];
    double load_cpu[ROUNDS_MAX], stall_cpu[ROUNDS_MAX],
        copy_cpu[ROUNDS_MAX]; /* CPU time: what it would take on an idle machine */
} job;

/* One rank's share of a state: a range of each tensor. */
typedef struct share {
    tri_piece weights[TENSORS], optimizer[2 * TENSORS];
    char name[3 * TENSORS][64];
    char *memory;
    size_t bytes;
} share;

static tri_status make_share(const job *job, int rank, int ranks, share *s) {
    static const char *const prefix[] = {"", "exp_avg.", "exp_avg_sq."};
    int64_t each = job->elements / TENSORS, begin = each * rank / ranks, end = each * (rank + 1) / ranks;
    s->bytes = (size_t)(end - begin) * 3 * TENSORS * sizeof(float);
    s->memory = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->memory == MAP_FAILED) return tri__fail(TRI_RESOURCE, "no memory for %zu bytes", s->bytes);
    for (size_t i = 0; i < s->bytes / sizeof(float); i++) ((float *)s->memory)[i] = (float)(i % 1000003) * 1e-6f;
    for (int i = 0; i < 3 * TENSORS; i++) {
        tri_piece *piece = i < TENSORS ? &s->weights[i] : &s->optimizer[i - TENSORS];
        snprintf(s->name[i], sizeof s->name[i], "%sprimary.encoder.layer.%d.weight", prefix[i / TENSORS], i % TENSORS);
        *piece = (tri_piece){.name = s->name[i], .dtype = TRI_F32, .shape = tri__shape_1d(each)};
        piece->slice = tri__slice_whole(&piece->shape);
        piece->slice.begin = begin, piece->slice.end = end;
        piece->data = s->memory + (size_t)i * (size_t)(end - begin) * sizeof(float);
    }
    return TRI_OK;
}

/* CPU seconds of this process or (CLOCK_THREAD_CPUTIME_ID) this thread. */
static double cpu(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static tri_status save(tri_saver *saver, const job *job, int64_t step, double *stall, double *stall_cpu) {
    tri_saved saved;
    tri_save_spec spec = {.folder = job->folder,
                          .step = step,
                          .keep = 1,
                          .config = tri__json_object(),
                          .preprocessing = tri__json_object(),
                          .state = tri__json_object()};
    double begin = tri__clock(), begin_cpu = cpu(CLOCK_THREAD_CPUTIME_ID);
    TRI_TRY(tri__saver_begin(saver, &spec));
    *stall = tri__clock() - begin;
    *stall_cpu = cpu(CLOCK_THREAD_CPUTIME_ID) - begin_cpu;
    TRI_TRY(tri__saver_advance(saver, 1, &saved));
    return saved.result == TRI_SAVE_DONE ? TRI_OK : tri__fail(TRI_IO, "%s", saved.words);
}

/* Writes the same bytes to two files, in the simplest way. */
static tri_status write_raw(const job *job, int rank, const share *s) {
    size_t part[] = {s->bytes / 3, s->bytes - s->bytes / 3};
    const char *at = s->memory;
    for (int i = 0; i < 2; at += part[i++]) {
        char path[TRI_PATH_MAX];
        snprintf(path, sizeof path, "%s/raw-%d-%d", job->folder, rank, i);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0) return tri__fail(TRI_IO, "cannot create %s", path);
        tri_status status = tri__write_all(fd, at, part[i], path);
        if (status == TRI_OK && fsync(fd)) status = tri__fail(TRI_IO, "cannot bring %s to disk", path);
        close(fd);
        TRI_TRY(status);
    }
    return TRI_OK;
}

static void remove_raw(const job *job, int rank) {
    for (int i = 0; i < 2; i++) {
        char path[TRI_PATH_MAX];
        snprintf(path, sizeof path, "%s/raw-%d-%d", job->folder, rank, i);
        unlink(path);
    }
}

/* Seconds of the slowest rank since all were ready at `begin`. */
static tri_status slowest(tri_world *world, double begin, double *into) {
    double seconds = tri__clock() - begin;
    TRI_TRY(tri_all_reduce(tri_group_world(world), NULL, &seconds, 1, TRI_F64, TRI_MAX));
    if (tri_world_rank(world) == 0) *into = seconds;
    return TRI_OK;
}

static tri_status read_all(const job *job, int64_t step, int rank, int ranks, const share *s) {
    char path[TRI_PATH_MAX];
    tri_checkpoint *checkpoint;
    snprintf(path, sizeof path, "%s/checkpoint-%lld", job->folder, (long long)step);
    TRI_TRY(tri__checkpoint_open_part(path, rank, ranks, &checkpoint));
    tri_status status = TRI_OK;
    for (int i = 0; i < TENSORS && status == TRI_OK; i++) status = tri__checkpoint_read(checkpoint, &s->weights[i]);
    for (int i = 0; i < 2 * TENSORS && status == TRI_OK; i++)
        status = tri__checkpoint_read(checkpoint, &s->optimizer[i]);
    tri__checkpoint_close(checkpoint);
    return status;
}

/* Save and raw write alternate, so that a slow phase of the disk affects both. */
static tri_status measure_save(tri_world *world, void *context) {
    job *job = context;
    share *s = calloc(1, sizeof *s);
    int rank = tri_world_rank(world), ranks = tri_world_size(world);
    tri_group *all = tri_group_world(world);
    tri_saver *saver;
    tri_saved rest;
    double unused;
    TRI_TRY(make_share(job, rank, ranks, s));
    TRI_TRY(tri__saver_open(world, s->weights, TENSORS, s->optimizer, 2 * TENSORS, 0, &saver));
    for (int i = 0; i < job->rounds; i++) {
        TRI_TRY(tri_barrier(all));
        double begin = tri__clock();
        TRI_TRY(save(saver, job, i, &unused, &unused));
        TRI_TRY(slowest(world, begin, &job->save[i]));
        TRI_TRY(tri__saver_advance(saver, 1, &rest)); /* the older one is removed */
        TRI_TRY(tri_barrier(all));
        begin = tri__clock();
        TRI_TRY(write_raw(job, rank, s));
        TRI_TRY(slowest(world, begin, &job->raw[i]));
        remove_raw(job, rank);
        TRI_TRY(tri_barrier(all));
        madvise(s->memory, s->bytes, MADV_DONTNEED); /* fresh pages, as at a start */
        begin = tri__clock();
        double begin_cpu = cpu(CLOCK_PROCESS_CPUTIME_ID);
        TRI_TRY(read_all(job, i, rank, ranks, s));
        double used = cpu(CLOCK_PROCESS_CPUTIME_ID) - begin_cpu;
        TRI_TRY(slowest(world, begin, &job->load[i]));
        TRI_TRY(slowest(world, tri__clock() - used, &job->load_cpu[i]));
    }
    tri__saver_close(saver);
    munmap(s->memory, s->bytes);
    free(s);
    return TRI_OK;
}

/* Background saving: how long the step is blocked, compared with one memcpy of the same bytes to resident pages. */
static tri_status measure_stall(tri_world *world, void *context) {
    job *job = context;
    share *s = calloc(1, sizeof *s);
    tri_saver *saver;
    tri_saved rest;
    TRI_TRY(make_share(job, 0, 1, s));
    TRI_TRY(tri__saver_open(world, s->weights, TENSORS, s->optimizer, 2 * TENSORS, 1, &saver));
    char *copy = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (copy == MAP_FAILED) return tri__fail(TRI_RESOURCE, "no memory for a copy");
    for (int i = 0; i < job->rounds; i++) {
        double begin = tri__clock(), begin_cpu = cpu(CLOCK_THREAD_CPUTIME_ID);
        memcpy(copy, s->memory, s->bytes);
        job->copy[i] = tri__clock() - begin;
        job->copy_cpu[i] = cpu(CLOCK_THREAD_CPUTIME_ID) - begin_cpu;
        TRI_TRY(save(saver, job, 100 + i, &job->stall[i], &job->stall_cpu[i]));
        TRI_TRY(tri__saver_advance(saver, 1, &rest));
    }
    munmap(copy, s->bytes);
    tri__saver_close(saver);
    munmap(s->memory, s->bytes);
    free(s);
    return TRI_OK;
}

static double median(const double *of, int n) {
    double sorted[ROUNDS_MAX];
    memcpy(sorted, of, (size_t)n * sizeof *of);
    qsort(sorted, (size_t)n, sizeof *sorted, bench_ascending);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static int run(job *job, int ranks, tri_rank_main *main) {
    tri_ranks how = {.n = ranks, .forks = 1, .heap_bytes = 1 << 20, .progress_timeout = 600};
    if (tri_ranks_run(&how, main, job) == TRI_OK) return 1;
    fprintf(stderr, "checkpoint: %s\n", tri_error());
    return 0;
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/trident-bench-??????";
    job *job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (job == MAP_FAILED) return 1;
    job->elements = (argc > 1 ? atoll(argv[1]) : 220) * 1000000;
    job->rounds = argc > 2 ? atoi(argv[2]) : 3;
    if (job->rounds < 1 || job->rounds > ROUNDS_MAX || job->elements < TENSORS) return 2;
    memset(folder + strlen(folder) - 6, 'X', 6);
    job->folder = argc > 3 ? argv[3] : mkdtemp(folder);
    double mb = 12e-6 * (double)job->elements;
    int good = 1;
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        if (!run(job, ranks, measure_save)) return 1;
        double save = median(job->save, job->rounds), raw = median(job->raw, job->rounds),
               load = median(job->load, job->rounds);
        int met = raw / save >= 0.8 && load < 3;
        printf("{\"what\": \"save\", \"ranks\": %d, \"mb\": %.0f, \"save_mb_s\": %.0f, \"raw_mb_s\": %.0f, \"ratio\": "
               "%.2f, "
               "\"load_seconds\": %.2f, \"load_cpu_seconds\": %.2f, \"met\": %s}\n",
               ranks, mb, mb / save, mb / raw, raw / save, load, median(job->load_cpu, job->rounds),
               met ? "true" : "false");
        good &= met;
    }
    if (!run(job, 1, measure_stall)) return 1;
    double stall = median(job->stall, job->rounds), copy = median(job->copy, job->rounds);
    printf("{\"what\": \"stall\", \"mb\": %.0f, \"stall_seconds\": %.3f, \"memcpy_seconds\": %.3f, \"ratio\": %.2f, "
           "\"cpu_ratio\": %.2f, "
           "\"met\": %s}\n",
           mb, stall, copy, stall / copy, median(job->stall_cpu, job->rounds) / median(job->copy_cpu, job->rounds),
           stall <= 1.3 * copy ? "true" : "false");
    good &= stall <= 1.3 * copy;
    tri__checkpoint_prune(job->folder, 0, 0);
    rmdir(job->folder);
    return !good;
}
