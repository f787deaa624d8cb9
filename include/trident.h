/* trident.h - the public interface of libtrident: train, evaluate and save Trimodal BERT classifiers.
 *
 * Every function returns a tri_status; the words that go with a failure are in tri_error(), kept per thread.
 * The library never prints and never exits. A status is also the exit code of the `trident` command. */
#ifndef TRIDENT_H
#define TRIDENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRI_API __attribute__((visibility("default")))

typedef enum tri_status {
    TRI_OK = 0,
    TRI_USAGE = 2,       /* wrong option, wrong configuration, or something this build cannot do */
    TRI_DATA = 65,       /* an input file's content is wrong */
    TRI_NOINPUT = 66,    /* an input file or folder is missing */
    TRI_INTERNAL = 70,   /* a defect of Trident */
    TRI_RESOURCE = 71,   /* out of memory, descriptors or processes */
    TRI_BUSY = 73,       /* the output folder is in use by another run */
    TRI_IO = 74,         /* reading or writing failed */
    TRI_STOPPED = 75,    /* stopped early; a checkpoint is saved; run again */
    TRI_DISAGREE = 76,   /* ranks disagree */
    TRI_NOTFINITE = 79   /* a number became infinite or undefined */
} tri_status;

/* The text of this thread's last failure; "" when there was none. Valid until the thread's next failing call. */
TRI_API const char *tri_error(void);
TRI_API const char *tri_version(void);

#ifdef __cplusplus
}
#endif
#endif
