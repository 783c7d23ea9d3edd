/* A rank of an MPI job that measures collectives. Compiled by collective_bench, with any MPI. */

#include <mpi.h>

#include "rank_loop.h"

struct rank_io {
  int rank;
  int size;
  char* in;
  char* out;
};

static int rank_of(struct rank_io* io) { return io->rank; }
static int rank_count(struct rank_io* io) { return io->size; }

static void rank_barrier(struct rank_io* io) {
  (void)io;
  MPI_Barrier(MPI_COMM_WORLD);
}

static long rank_agree(struct rank_io* io, long number) {
  (void)io;
  MPI_Bcast(&number, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  return number;
}

static void rank_buffers(struct rank_io* io, size_t in_bytes, size_t out_bytes) {
  free(io->in);
  free(io->out);
  /* Aligned and touched, as ours are. */
  if (posix_memalign((void**)&io->in, 4096, in_bytes + 64) != 0 ||
      posix_memalign((void**)&io->out, 4096, out_bytes + 64) != 0) {
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  memset(io->in, 0, in_bytes + 64);
  memset(io->out, 0, out_bytes + 64);
}

static void rank_call(struct rank_io* io, const char* op, size_t bytes) {
  const int floats = (int)(bytes / sizeof(float));
  const MPI_Comm all = MPI_COMM_WORLD;
  if (strcmp(op, "barrier") == 0) {
    MPI_Barrier(all);
  } else if (strcmp(op, "broadcast") == 0) {
    MPI_Bcast(io->in, (int)bytes, MPI_BYTE, 0, all);
  } else if (strcmp(op, "allreduce") == 0) {
    MPI_Allreduce(io->in, io->out, floats, MPI_FLOAT, MPI_SUM, all);
  } else if (strcmp(op, "allgather") == 0) {
    MPI_Allgather(io->in, (int)bytes, MPI_BYTE, io->out, (int)bytes, MPI_BYTE, all);
  } else if (strcmp(op, "reduce_scatter") == 0) {
    MPI_Reduce_scatter_block(io->in, io->out, floats / io->size, MPI_FLOAT, MPI_SUM, all);
  } else if (strcmp(op, "all_to_all") == 0) {
    const int part = (int)bytes / io->size;
    MPI_Alltoall(io->in, part, MPI_BYTE, io->out, part, MPI_BYTE, all);
  } else {
    MPI_Abort(all, 2);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  struct rank_io io = {0, 0, NULL, NULL};
  MPI_Comm_rank(MPI_COMM_WORLD, &io.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &io.size);
  const int code = rank_main(&io, argc, argv);
  MPI_Finalize();
  return code;
}
