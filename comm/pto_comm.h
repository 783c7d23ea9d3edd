/*
 * Communication between ranks, behind one C API. The backend determines whether a rank is a thread
 * of this process or a separate process, and how data travels:
 *
 *   "local"  ranks are threads (or just handles) of one process
 *   "shm"    ranks are processes of one machine and one user, with memory shared between them
 *
 * Terms: a *communicator* is one rank's membership in a job. A *window* is memory of the same size
 * at each of its members, with additional signal words; its members are all or some ranks of the
 * job, in any order, and a member's position in that order is its number in the window.
 *
 * Every wait has a deadline, and ends well before it if a rank that it needs has died. A returned
 * status is a pto_comm_status; pto_comm_error returns its text. Unless noted otherwise, all
 * functions are thread-safe.
 */
#ifndef PTO_COMM_PTO_COMM_H_
#define PTO_COMM_PTO_COMM_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels/pto_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PTO_COMM_MAX_RANKS 64
#define PTO_COMM_MAX_SIGNALS 65536

typedef enum pto_comm_status {
  PTO_COMM_OK = 0,
  PTO_COMM_INVALID = 1,       /* an argument is invalid */
  PTO_COMM_MISMATCH = 2,      /* ranks disagree: number of ranks, bytes, members, collective */
  PTO_COMM_IN_USE = 3,        /* another job of this name is alive, or the rank is taken */
  PTO_COMM_TIMED_OUT = 4,     /* the deadline passed; the text names the missing ranks */
  PTO_COMM_RANK_LOST = 5,     /* a rank died, aborted or left; the text names it */
  PTO_COMM_NOT_SUPPORTED = 6, /* this backend cannot do it */
  PTO_COMM_NO_MEMORY = 7,     /* no room for the window */
  PTO_COMM_OUT_OF_RANGE = 8,  /* beyond the window's end, or no such signal */
  PTO_COMM_BROKEN = 9,        /* a collective failed here before: make another window */
  PTO_COMM_SYSTEM = 10        /* the operating system refused something */
} pto_comm_status;

typedef struct pto_comm pto_comm;
typedef struct pto_comm_window pto_comm_window;

/* Returns a deadline `nanos` from now, in ns of CLOCK_MONOTONIC; saturates at the maximum. */
int64_t pto_comm_deadline_after(int64_t nanos);

/* The name of the status, for example "TIMED_OUT". */
const char* pto_comm_status_name(int status);

/* ---- a rank joins and leaves -------------------------------------------------------------- */

typedef struct pto_comm_options {
  uint32_t struct_size; /* sizeof(pto_comm_options) */
  uint32_t rank;        /* 0 .. size - 1 */
  uint32_t size;        /* 1 .. PTO_COMM_MAX_RANKS */
  uint32_t reserved;    /* 0 */
  const char* backend;  /* "local" or "shm" */
  /* The name of the job: 1 to 64 of A-Z a-z 0-9 . _ - and the same for all its ranks. */
  const char* name;
  /* "shm": a directory on a file system in memory; NULL for /dev/shm. */
  const char* directory;
  /* Distinguishes jobs with the same name; the same for all ranks of a job. */
  uint64_t generation;
  int64_t deadline_ns;
} pto_comm_options;

/*
 * Waits until all ranks have joined. A rank whose call fails leaves nothing behind and may try
 * again. Errors: INVALID; MISMATCH: ranks disagree about `size`; IN_USE; TIMED_OUT; RANK_LOST: a
 * rank joined and died; NO_MEMORY; SYSTEM. On error *comm is NULL, and pto_comm_error(NULL, …)
 * returns the text.
 */
int pto_comm_init(const pto_comm_options* options, pto_comm** comm);

/*
 * Leaves the job, and frees the handle and all its windows; no other call on them may be active or
 * follow. Does not wait. Peers that still need this rank fail with RANK_LOST.
 */
int pto_comm_destroy(pto_comm* comm);

/*
 * Reports that this rank cannot continue: every wait of a peer that involves it fails with
 * RANK_LOST and this text (of about 200 bytes), now and later. The handle must still be destroyed.
 */
int pto_comm_abort(pto_comm* comm, const char* why);

uint32_t pto_comm_rank(const pto_comm* comm);
uint32_t pto_comm_size(const pto_comm* comm);

/*
 * The text of the last failed call on this handle or its windows; with NULL, of the last failed
 * call in this thread. Writes at most `size` bytes including the terminating NUL, and returns the
 * length of the whole text.
 */
size_t pto_comm_error(const pto_comm* comm, char* buffer, size_t size);

/* Waits for all ranks; as pto_comm_window_barrier. */
int pto_comm_barrier(pto_comm* comm, int64_t deadline_ns);

/* ---- windows ------------------------------------------------------------------------------ */

typedef struct pto_comm_window_options {
  uint32_t struct_size; /* sizeof(pto_comm_window_options) */
  uint32_t rank_count;  /* 0: all ranks in their order, and `ranks` is not read */
  const uint32_t* ranks;
  /* Identifies the window in the job; an id can be used only once by a communicator. */
  uint64_t id;
  uint64_t bytes;         /* of each member; may be 0 */
  uint32_t signal_count;  /* words of each member, 0 .. PTO_COMM_MAX_SIGNALS */
  uint32_t scratch_bytes; /* of each member, for collectives; 0: 1 MiB; at least 64 KiB */
} pto_comm_window_options;

/*
 * All members must call this with the same options; they wait for each other. Bytes and signals
 * are initially 0. If the call fails at one member, it fails at all.
 * Errors: INVALID; MISMATCH; TIMED_OUT; RANK_LOST; NO_MEMORY; SYSTEM.
 */
int pto_comm_window_create(pto_comm* comm, const pto_comm_window_options* options,
                           int64_t deadline_ns, pto_comm_window** window);

/*
 * Leaves the window and frees the handle; no other call on it may be active or follow. Does not
 * wait: peers may still read and write this member's bytes until they leave, too.
 */
int pto_comm_window_destroy(pto_comm_window* window);

/* This member's number in the window, and the number of members. */
uint32_t pto_comm_window_rank(const pto_comm_window* window);
uint32_t pto_comm_window_size(const pto_comm_window* window);
uint64_t pto_comm_window_bytes(const pto_comm_window* window);

/* This member's bytes, aligned to a page. */
int pto_comm_window_local(const pto_comm_window* window, void** base);

/*
 * The address of byte `offset` of a member in this process. NOT_SUPPORTED if the backend cannot map
 * it: use put and get. Errors: OUT_OF_RANGE.
 */
int pto_comm_window_remote(const pto_comm_window* window, uint32_t peer, uint64_t offset,
                           void** address);

/*
 * Copies between this process and a member's bytes. Data put before a notify is visible to members
 * that have seen that notify. Errors: OUT_OF_RANGE.
 */
int pto_comm_put(pto_comm_window* window, uint32_t peer, uint64_t offset, const void* from,
                 uint64_t bytes);
int pto_comm_get(pto_comm_window* window, uint32_t peer, uint64_t offset, void* to, uint64_t bytes);

/* ---- signals and barriers ----------------------------------------------------------------- */

/* Changes word `signal` of a member and wakes its waiters. Addition wraps around. */
int pto_comm_notify(pto_comm_window* window, uint32_t peer, uint32_t signal, pto_notify_op op,
                    int64_t value);

/*
 * Waits until this member's own word compares true with `value`. Does not change the word: use a
 * growing target rather than clearing it. `seen`, unless NULL, receives the word, on failure too.
 * Errors: OUT_OF_RANGE; INVALID; TIMED_OUT; RANK_LOST: a member died, or all others have left.
 */
int pto_comm_wait(pto_comm_window* window, uint32_t signal, pto_compare compare, int64_t value,
                  int64_t deadline_ns, int64_t* seen);

/* Reads this member's own word. */
int pto_comm_read_signal(const pto_comm_window* window, uint32_t signal, int64_t* value);

/*
 * Returns when all members have called it. A member that times out does not count: the next barrier
 * waits for all members again, including this one. One call at a time for each member.
 * Errors: TIMED_OUT; RANK_LOST.
 */
int pto_comm_window_barrier(pto_comm_window* window, int64_t deadline_ns);

#ifdef __cplusplus
}
#endif

#endif /* PTO_COMM_PTO_COMM_H_ */
