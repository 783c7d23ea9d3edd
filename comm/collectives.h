/*
 * Collectives over a window: all its members call the same one, in the same order, one at a time.
 * They read each other's memory; a buffer that lies in the caller's own bytes of the window is
 * used where it is, any other is copied through the window's scratch, piece by piece. Long
 * messages are therefore quickest when all members' buffers are in the window.
 *
 * Without elements a collective needs no buffers, and is still one that all members call. A root of
 * a broadcast of up to 16 KiB waits for nobody while it is at most eight collectives ahead of all
 * others; so two members that both take themselves for the root learn of it in a later collective.
 *
 * A buffer is aligned to its elements. On return all outputs are complete and all inputs may be
 * changed. F16 and BF16 are added up in F32 and rounded once. Every member gets the same bits.
 *
 * Errors: INVALID; MISMATCH, members call different things; TIMED_OUT; RANK_LOST; NOT_SUPPORTED,
 * the backend cannot map peers' memory. After any of these but INVALID and NOT_SUPPORTED, the other
 * members fail with the same error in this collective or their next one, and all later ones on
 * this window fail with BROKEN.
 */
#ifndef PTO_COMM_COLLECTIVES_H_
#define PTO_COMM_COLLECTIVES_H_

#include <stdint.h>

#include "comm/pto_comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Integers wrap around; of MAX and MIN with a NaN the result is NaN. */
typedef enum pto_comm_reduce {
  PTO_COMM_SUM = 1,
  PTO_COMM_PROD = 2,
  PTO_COMM_MAX = 3,
  PTO_COMM_MIN = 4
} pto_comm_reduce;

/* `buffer` of member `root` to that of all others. */
int pto_comm_broadcast(pto_comm_window* window, void* buffer, uint64_t bytes, uint32_t root,
                       int64_t deadline_ns);

/* All members' `input`, element by element, into everyone's `output`, which may be `input`. */
int pto_comm_all_reduce(pto_comm_window* window, const void* input, void* output, uint64_t count,
                        pto_dtype dtype, pto_comm_reduce op, int64_t deadline_ns);

/*
 * All members' `input` one after the other into everyone's `output`. The input may be its own
 * place in the output.
 */
int pto_comm_all_gather(pto_comm_window* window, const void* input, void* output, uint64_t bytes,
                        int64_t deadline_ns);

/* The inputs, of members × `count` elements, reduced; member i's `output` is part i of that. */
int pto_comm_reduce_scatter(pto_comm_window* window, const void* input, void* output,
                            uint64_t count, pto_dtype dtype, pto_comm_reduce op,
                            int64_t deadline_ns);

/* Part j of member i's `input`, of `bytes`, is part i of member j's `output`. */
int pto_comm_all_to_all(pto_comm_window* window, const void* input, void* output, uint64_t bytes,
                        int64_t deadline_ns);

#ifdef __cplusplus
}
#endif

#endif /* PTO_COMM_COLLECTIVES_H_ */
