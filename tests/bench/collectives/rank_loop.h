/*
 * What a rank program does, over whatever carries its messages: it is called with milliseconds and
 * cases such as "allreduce:4096", runs each case over and over, and rank 0 prints the shortest
 * time per call as "allreduce 4096 12.5", in microseconds. In C, so that any MPI can compile it.
 *
 * The includer defines struct rank_io and the functions below.
 */
#ifndef PTO_TESTS_BENCH_COLLECTIVES_RANK_LOOP_H_
#define PTO_TESTS_BENCH_COLLECTIVES_RANK_LOOP_H_

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct rank_io;
static int rank_of(struct rank_io* io);
static int rank_count(struct rank_io* io);
/* All ranks are here. */
static void rank_barrier(struct rank_io* io);
/* Rank 0's number for all. */
static long rank_agree(struct rank_io* io, long number);
/* Buffers of all zeros for the cases that follow. */
static void rank_buffers(struct rank_io* io, size_t in_bytes, size_t out_bytes);
/* One collective over these buffers, of float where it reduces. `bytes` is what each rank puts in.
 */
static void rank_call(struct rank_io* io, const char* op, size_t bytes);

static double rank_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double rank_time(struct rank_io* io, const char* op, size_t bytes, long calls) {
  rank_barrier(io);
  const double start = rank_seconds();
  for (long i = 0; i < calls; ++i) rank_call(io, op, bytes);
  /* A root may be ahead of the others. */
  rank_barrier(io);
  return (rank_seconds() - start) / (double)calls;
}

static int rank_main(struct rank_io* io, int argc, char** argv) {
  if (argc < 2) return 2;
  const double budget = atof(argv[1]) * 1e-3;
  for (int i = 2; i < argc; ++i) {
    char op[32];
    unsigned long bytes = 0;
    if (sscanf(argv[i], "%31[a-z_]:%lu", op, &bytes) != 2) return 2;
    const int gather = strcmp(op, "allgather") == 0;
    rank_buffers(io, bytes, gather ? bytes * (size_t)rank_count(io) : bytes);
    rank_time(io, op, bytes, 1);
    double best = rank_time(io, op, bytes, 1);
    /* Short ones need more to be timed at all; long ones are bounded by the budget. */
    if (rank_agree(io, best < 1e-3)) best = rank_time(io, op, bytes, 20);
    const double wanted = budget / 4 / best;
    const long calls = rank_agree(io, wanted < 1 ? 1 : wanted > 50000 ? 50000 : (long)wanted);
    const long rounds = rank_agree(io, best > budget ? 1 : 4);
    for (long round = 0; round < rounds; ++round) {
      const double took = rank_time(io, op, bytes, calls);
      if (took < best || round == 0) best = took;
    }
    if (rank_of(io) == 0) {
      printf("%s %lu %.4f\n", op, bytes, best * 1e6);
      fflush(stdout);
    }
  }
  return 0;
}

#endif /* PTO_TESTS_BENCH_COLLECTIVES_RANK_LOOP_H_ */
