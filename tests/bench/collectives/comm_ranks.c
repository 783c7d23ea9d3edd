/* comm_ranks RANKS MILLISECONDS CASE...: collectives of pto_comm between processes of its own. */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/collectives.h"
#include "comm/pto_comm.h"
#include "tests/bench/collectives/rank_loop.h"

struct rank_io {
  pto_comm* comm;
  pto_comm_window* window; /* holds in and, behind it, out */
  uint64_t next_id;
  size_t in_bytes;
  char* in;
  char* out;
};

static int64_t soon(void) { return pto_comm_deadline_after(60000000000); }

static void check(struct rank_io* io, int status) {
  if (status == PTO_COMM_OK) return;
  char text[512];
  pto_comm_error(io->comm, text, sizeof text);
  fprintf(stderr, "comm_ranks: %s: %s\n", pto_comm_status_name(status), text);
  exit(1);
}

static int rank_of(struct rank_io* io) { return (int)pto_comm_rank(io->comm); }
static int rank_count(struct rank_io* io) { return (int)pto_comm_size(io->comm); }
static void rank_barrier(struct rank_io* io) { check(io, pto_comm_barrier(io->comm, soon())); }

static long rank_agree(struct rank_io* io, long number) {
  check(io, pto_comm_broadcast(io->window, &number, sizeof number, 0, soon()));
  return number;
}

static void rank_buffers(struct rank_io* io, size_t in_bytes, size_t out_bytes) {
  if (io->window != NULL) check(io, pto_comm_window_destroy(io->window));
  const size_t aligned = (in_bytes + 4095) / 4096 * 4096 + 4096;
  pto_comm_window_options options = {0};
  options.struct_size = sizeof options;
  options.id = ++io->next_id;
  options.bytes = aligned + out_bytes + 4096;
  check(io, pto_comm_window_create(io->comm, &options, soon(), &io->window));
  void* base = NULL;
  check(io, pto_comm_window_local(io->window, &base));
  io->in = base;
  io->out = io->in + aligned;
  memset(base, 0, options.bytes);
}

static void rank_call(struct rank_io* io, const char* op, size_t bytes) {
  const uint64_t floats = bytes / sizeof(float);
  const uint64_t ranks = (uint64_t)rank_count(io);
  /* The time is far off, so it need not be exact: reading the clock is not what is measured. */
  const int64_t deadline = INT64_MAX;
  int status = PTO_COMM_INVALID;
  if (strcmp(op, "barrier") == 0) {
    status = pto_comm_window_barrier(io->window, deadline);
  } else if (strcmp(op, "broadcast") == 0) {
    status = pto_comm_broadcast(io->window, io->in, bytes, 0, deadline);
  } else if (strcmp(op, "allreduce") == 0) {
    status =
        pto_comm_all_reduce(io->window, io->in, io->out, floats, PTO_F32, PTO_COMM_SUM, deadline);
  } else if (strcmp(op, "allgather") == 0) {
    status = pto_comm_all_gather(io->window, io->in, io->out, bytes, deadline);
  } else if (strcmp(op, "reduce_scatter") == 0) {
    status = pto_comm_reduce_scatter(io->window, io->in, io->out, floats / ranks, PTO_F32,
                                     PTO_COMM_SUM, deadline);
  } else if (strcmp(op, "all_to_all") == 0) {
    status = pto_comm_all_to_all(io->window, io->in, io->out, bytes / ranks, deadline);
  }
  check(io, status);
}

static int be_rank(uint32_t rank, uint32_t size, const char* job, int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct rank_io io = {0};
  pto_comm_options options = {0};
  options.struct_size = sizeof options;
  options.rank = rank;
  options.size = size;
  options.backend = "shm";
  options.name = job;
  options.deadline_ns = soon();
  check(&io, pto_comm_init(&options, &io.comm));
  const int code = rank_main(&io, argc, argv);
  pto_comm_destroy(io.comm);
  return code;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const uint32_t size = (uint32_t)atoi(argv[1]);
  char job[64];
  snprintf(job, sizeof job, "bench-%d", (int)getpid());
  for (uint32_t rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) exit(be_rank(rank, size, job, argc - 1, argv + 1));
  }
  int code = 0;
  for (uint32_t rank = 0; rank < size; ++rank) {
    int status = 0;
    if (wait(&status) < 0 || status != 0) code = 1;
  }
  return code;
}
