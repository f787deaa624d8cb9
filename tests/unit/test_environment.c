/* test_environment.c - which launcher is detected, its variables, and what is refused; Slurm's grammars. */
#include "comm/launchers/environment.h"
#include "comm/launchers/slurm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The environment of the case at hand: "NAME=value NAME=value". A lookup has no argument of its own, so it lives
 * here. */
static char environment[1024];

static char *lookup(const char *name) {
    size_t n = strlen(name);
    for (char *at = environment; *at; at += strlen(at) + 1)
        if (!strncmp(at, name, n) && at[n] == '=') return at + n + 1;
    return NULL;
}

static tri_status detect(const char *text, tri_launch *out) {
    memset(environment, 0, sizeof environment);
    snprintf(environment, sizeof environment - 1, "%s", text);
    for (char *at = environment; *at; at++)
        if (*at == ' ') *at = 0;
    return tri__launch_detect(lookup, out);
}

#define SLURM_STEP \
    "SLURM_STEP_ID=0 SLURM_JOB_ID=1234567 SLURM_NTASKS=9 SLURM_STEP_NUM_TASKS=5 SLURM_STEP_NUM_NODES=3 " \
    "SLURM_STEP_TASKS_PER_NODE=2(x2),1 SLURM_TASKS_PER_NODE=3(x3) SLURM_STEP_NODELIST=n[08-10]"
#define OMPI(rank, size) "OMPI_COMM_WORLD_RANK=" #rank " OMPI_COMM_WORLD_SIZE=" #size " "

/* Which MPI a launcher is for, and whether it is Slurm's step. */
static void finds_the_mpi(void **state) {
    (void)state;
    static const struct {
        const char *environment;
        tri_mpi_kind mpi;
        int slurm;
    } cases[] = {
        {"RANK=0 WORLD_SIZE=2", TRI_MPI_ANY, 0},
        {OMPI(0, 2) "PMIX_RANK=0", TRI_MPI_OPENMPI, 0},
        {"PMI_RANK=0 PMI_SIZE=2", TRI_MPI_MPICH, 0},
        {"PMI_RANK=0 PMI_SIZE=2 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=2", TRI_MPI_MPICH, 1},
        {"PMIX_RANK=0 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=2", TRI_MPI_OPENMPI, 1},
        {"SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=2", TRI_MPI_ANY, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_launch launch;
        if (detect(cases[i].environment, &launch) != TRI_OK) fail_msg("%s: %s", cases[i].environment, tri_error());
        if (launch.mpi != cases[i].mpi || launch.slurm != cases[i].slurm)
            fail_msg("%s: %d, %d", cases[i].environment, launch.mpi, launch.slurm);
    }
}

/* Jobs whose ids differ only in what is cut off would meet. */
static void run_ids_are_not_cut(void **state) {
    (void)state;
    static const char *const names[] = {
        "RANK=0 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=", OMPI(0, 2) "OMPI_MCA_ess_base_jobid=",
        "SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_JOB_ID="};
    for (int i = 0; i < 3; i++)
        for (int n = TRI_RUN_ID_BYTES - 4; n <= TRI_RUN_ID_BYTES + 2; n++) {
            char text[512], id[128];
            tri_launch launch;
            memset(id, '7', sizeof id), id[n] = 0;
            snprintf(text, sizeof text, "%s%s", names[i], id);
            int added = i < 2 ? 0 : 2; /* ".0", the step's id */
            tri_status status = detect(text, &launch);
            assert_int_equal(status, n + added <= TRI_RUN_ID_BYTES ? TRI_OK : TRI_USAGE);
            if (status == TRI_OK) assert_int_equal(strlen(launch.run), n + added);
            else assert_non_null(strstr(tri_error(), "at most 95 are accepted"));
        }
}

static void finds_the_launcher(void **state) {
    (void)state;
    static const struct {
        const char *environment;
        tri_launcher launcher;
        int rank, size, local, local_size, node, nodes, fd, port;
        const char *host, *run;
    } cases[] = {
        {"", TRI_LAUNCHER_NONE, 0, 1, 0, 1, 0, 1, -1, 0, "", ""},
        {"MASTER_PORT=1 LOCAL_RANK=7", TRI_LAUNCHER_NONE, 0, 1, 0, 1, 0, 1, -1, 0, "", ""},
        {"TRIDENT_FD=7 RANK=2 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=4 GROUP_RANK=0 MASTER_ADDR=127.0.0.1",
         TRI_LAUNCHER_OWN, 2, 4, 2, 4, 0, 1, 7, 0, "127.0.0.1", ""},
        /* our supervisor inside a Slurm step of one task, or of several */
        {"TRIDENT_FD=7 RANK=2 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=4 " SLURM_STEP
         " SLURM_PROCID=0 SLURM_NODEID=0",
         TRI_LAUNCHER_OWN, 2, 4, 2, 4, 0, 1, 7, 0, "127.0.0.1", ""},
        {"RANK=1 WORLD_SIZE=2", TRI_LAUNCHER_TORCHRUN, 1, 2, 1, 2, 0, 1, -1, 29500, "127.0.0.1", ""},
        {"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 GROUP_WORLD_SIZE=2 MASTER_ADDR=n1 "
         "MASTER_PORT=1234 "
         "TORCHELASTIC_RUN_ID=x",
         TRI_LAUNCHER_TORCHRUN, 5, 8, 1, 4, 1, 2, -1, 1234, "n1", "x"},
        {"RANK=5 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4 NODE_RANK=1", TRI_LAUNCHER_TORCHRUN, 5, 8, 1, 4, 1, 2, -1, 29500, "",
         ""},
        {"RANK=5 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4", TRI_LAUNCHER_TORCHRUN, 5, 8, 1, 4, 1, 2, -1, 29500, "", ""},
        {OMPI(3, 6) "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=3", TRI_LAUNCHER_OPENMPI, 3, 6, 0, 3, 1, 2,
         -1, 0, "", ""},
        {"PMI_RANK=3 PMI_SIZE=6 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", TRI_LAUNCHER_MPICH, 3, 6, 1, 2, 1, 3, -1, 0, "",
         ""},
        {"PMI_RANK=3 PMI_SIZE=6", TRI_LAUNCHER_MPICH, 3, 6, 3, 6, 0, 1, -1, 0, "127.0.0.1", ""},
        {SLURM_STEP " SLURM_PROCID=4 SLURM_NODEID=2 SLURM_LOCALID=0", TRI_LAUNCHER_SLURM, 4, 5, 0, 1, 2, 3, -1,
         15000 + 4567, "n08", "1234567.0"},
        {SLURM_STEP " SLURM_PROCID=3 SLURM_NODEID=1 SLURM_LOCALID=1", TRI_LAUNCHER_SLURM, 3, 5, 1, 2, 1, 3, -1,
         15000 + 4567, "n08", "1234567.0"},
        /* two that agree; the MPI launcher counts before variables set by hand */
        {"RANK=3 WORLD_SIZE=6 " OMPI(3, 6), TRI_LAUNCHER_OPENMPI, 3, 6, 3, 6, 0, 1, -1, 0, "127.0.0.1", ""},
        {"RANK=4 WORLD_SIZE=5 " SLURM_STEP " SLURM_PROCID=4 SLURM_NODEID=2 SLURM_LOCALID=0", TRI_LAUNCHER_SLURM, 4, 5,
         0, 1, 2, 3, -1, 19567, "n08", "1234567.0"},
        /* one that only started the other */
        {"RANK=1 WORLD_SIZE=2 " OMPI(0, 1), TRI_LAUNCHER_TORCHRUN, 1, 2, 1, 2, 0, 1, -1, 29500, "127.0.0.1", ""},
        {"RANK=0 WORLD_SIZE=1 " OMPI(1, 2), TRI_LAUNCHER_OPENMPI, 1, 2, 1, 2, 0, 1, -1, 0, "127.0.0.1", ""},
        {OMPI(1, 2) SLURM_STEP " SLURM_PROCID=0 SLURM_NODEID=0 SLURM_LOCALID=0", TRI_LAUNCHER_OPENMPI, 1, 2, 1, 2, 0, 1,
         -1, 0, "127.0.0.1", ""},
        {"RANK=7 WORLD_SIZE=20 LOCAL_WORLD_SIZE=4 TORCHELASTIC_RUN_ID=r " SLURM_STEP " SLURM_PROCID=1",
         TRI_LAUNCHER_TORCHRUN, 7, 20, 3, 4, 1, 5, -1, 29500, "", "r"},
        /* a batch script of one task is no launch; nor is a shell with a number of tasks */
        {"SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_JOB_ID=1", TRI_LAUNCHER_NONE, 0, 1, 0, 1, 0, 1, -1, 0, "", ""},
        {"SLURM_NTASKS=4 SLURM_JOB_ID=1", TRI_LAUNCHER_NONE, 0, 1, 0, 1, 0, 1, -1, 0, "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_launch got;
        if (detect(cases[i].environment, &got) != TRI_OK) fail_msg("case %zu: %s", i, tri_error());
        int equal = got.launcher == cases[i].launcher && got.rank == cases[i].rank && got.size == cases[i].size &&
                    got.local == cases[i].local && got.local_size == cases[i].local_size && got.node == cases[i].node &&
                    got.nodes == cases[i].nodes && got.fd == cases[i].fd && got.port == cases[i].port;
        if (!equal)
            fail_msg("case %zu: %s: rank %d of %d, %d of %d on machine %d of %d, fd %d, port %d", i,
                     tri__launcher_text(got.launcher), got.rank, got.size, got.local, got.local_size, got.node,
                     got.nodes, got.fd, got.port);
        assert_string_equal(got.host, cases[i].host);
        assert_string_equal(got.run, cases[i].run);
    }
}

static void refuses(void **state) {
    (void)state;
    static const struct {
        const char *environment, *text[3];
    } cases[] = {
        {"RANK=1", {"RANK", "not WORLD_SIZE"}},
        {"WORLD_SIZE=2", {"WORLD_SIZE", "not RANK"}},
        {"RANK=x WORLD_SIZE=2", {"RANK=x", "whole number"}},
        {"RANK=1.5 WORLD_SIZE=2", {"RANK=1.5"}},
        {"RANK=2 WORLD_SIZE=2", {"RANK=2", "from 0 to 1"}},
        {"RANK=-1 WORLD_SIZE=2", {"RANK=-1"}},
        {"RANK=0 WORLD_SIZE=0", {"WORLD_SIZE=0"}},
        {"RANK=0 WORLD_SIZE=99999999999999999999", {"WORLD_SIZE=99999"}},
        {"RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=5", {"LOCAL_WORLD_SIZE=5"}},
        {"RANK=1 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2", {"LOCAL_RANK=2"}},
        {"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1", {"RANK=5", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE is needed"}},
        {"RANK=1 WORLD_SIZE=2 MASTER_PORT=70000", {"MASTER_PORT=70000"}},
        {"TRIDENT_FD=3", {"TRIDENT_FD"}},
        {"TRIDENT_FD=-3 RANK=0 WORLD_SIZE=2", {"TRIDENT_FD=-3"}},
        {"RANK=1 WORLD_SIZE=4 " OMPI(2, 4), {"rank 1 of 4", "Open MPI", "rank 2 of 4"}},
        {"RANK=1 WORLD_SIZE=4 " OMPI(1, 2), {"rank 1 of 4", "rank 1 of 2"}},
        {"RANK=1 WORLD_SIZE=4 PMI_RANK=1 PMI_SIZE=3", {"rank 1 of 4", "rank 1 of 3"}},
        {"RANK=1 WORLD_SIZE=4 " SLURM_STEP " SLURM_PROCID=1", {"rank 1 of 4", "Slurm", "rank 1 of 5"}},
        {"SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=1", {"4 tasks", "srun", "--nproc-per-node"}},
        {"SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_ID=4294967291", {"4 tasks", "srun"}},
        {"SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_ID=0 SLURM_NNODES=2", {"SLURM_STEP_TASKS_PER_NODE"}},
        {"SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_ID=0 SLURM_NNODES=2 SLURM_STEP_TASKS_PER_NODE=2(x", {"2(x"}},
        {"SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_STEP_ID=0 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=4", {"machine 1"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_launch got;
        if (detect(cases[i].environment, &got) != TRI_USAGE) fail_msg("case %zu is accepted", i);
        for (int k = 0; k < 3 && cases[i].text[k]; k++)
            if (!strstr(tri_error(), cases[i].text[k]))
                fail_msg("case %zu: no \"%s\" in: %s", i, cases[i].text[k], tri_error());
    }
}

/* In a batch script a caller that starts ranks by itself may go on: it is told so. */
static void tells_a_batch_script(void **state) {
    (void)state;
    tri_launch got;
    assert_int_equal(detect("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=1", &got), TRI_USAGE);
    assert_int_equal(got.batch, 1);
    assert_int_equal(got.launcher, TRI_LAUNCHER_NONE);
    assert_int_equal(got.size, 1);
    assert_int_equal(detect("RANK=1", &got), TRI_USAGE);
    assert_int_equal(got.batch, 0);
}

static void reads_tasks(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int node, tasks;
    } cases[] = {
        {"2(x3),1", 0, 2}, {"2(x3),1", 2, 2}, {"2(x3),1", 3, 1}, {"2(x3),1", 4, 0},    {"4", 0, 4},
        {"4", 1, 0},       {"1,2,3", 1, 2},   {"", 0, 0},        {"2(x", 0, 0},        {"2(x3", 0, 0},
        {"2(3)", 0, 0},    {"x", 0, 0},       {"2,", 1, 0},      {"2(x0),5", 0, 0},    {"-1", 0, 0},
        {"2 ,3", 0, 0},    {"2;3", 0, 0},     {",2", 0, 0},      {"9999999999", 0, 0}, {"1(x99999999999)", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (tri__slurm_tasks(cases[i].text, cases[i].node) != cases[i].tasks)
            fail_msg("%s, machine %d: %d tasks", cases[i].text, cases[i].node,
                     tri__slurm_tasks(cases[i].text, cases[i].node));
}

static void reads_hosts(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int node;
        const char *host; /* NULL: refused */
    } cases[] = {
        {"n[01-03,07],gpu5", 0, "n01"},
        {"n[01-03,07],gpu5", 2, "n03"},
        {"n[01-03,07],gpu5", 3, "n07"},
        {"n[01-03,07],gpu5", 4, "gpu5"},
        {"n[01-03,07],gpu5", 5, NULL},
        {"one", 0, "one"},
        {"a,b-1,c.d", 1, "b-1"},
        {"n[9-11]", 2, "n11"},
        {"n[09-11]", 0, "n09"},
        {"n[098-101]x", 3, "n101x"},
        {"r[1-2]n[1-3]", 4, "r2n2"},
        {"r[1-2]n[1-3]", 5, "r2n3"},
        {"", 0, NULL},
        {"n[", 0, NULL},
        {"n[]", 0, NULL},
        {"n[3-1]", 0, NULL},
        {"n[1-]", 0, NULL},
        {"n[1,]", 0, NULL},
        {"n[a]", 0, NULL},
        {"n]1", 0, NULL},
        {"a,,b", 1, NULL},
        {"n[1-9999999999]", 0, NULL},
        {"n[0000000001]", 0, NULL},
        {"a b", 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char host[8];
        int there = tri__slurm_host(cases[i].text, cases[i].node, host, sizeof host);
        if (there != (cases[i].host != NULL))
            fail_msg("%s, machine %d: %s", cases[i].text, cases[i].node, there ? host : "refused");
        if (there) assert_string_equal(host, cases[i].host);
    }
    char host[8];
    assert_int_equal(tri__slurm_host("seventy", 0, host, sizeof host), 1);
    assert_int_equal(tri__slurm_host("seventy1", 0, host, sizeof host), 0);
    assert_int_equal(tri__slurm_host("node[10-12]x", 0, host, sizeof host), 1);
    assert_int_equal(tri__slurm_host("node[100-120]x", 0, host, sizeof host), 0);
    assert_int_equal(tri__slurm_host("node7[100-120]", 0, host, sizeof host), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_mpi), cmocka_unit_test(run_ids_are_not_cut),  cmocka_unit_test(finds_the_launcher),
        cmocka_unit_test(refuses),       cmocka_unit_test(tells_a_batch_script), cmocka_unit_test(reads_tasks),
        cmocka_unit_test(reads_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
