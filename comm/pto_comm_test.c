/* The API as a C compiler sees it, and what a call with nothing says. */
#include "comm/pto_comm.h"

#include <stdio.h>
#include <string.h>

#include "comm/collectives.h"

#define CHECK(condition)                                            \
  do {                                                              \
    if (!(condition)) {                                             \
      fprintf(stderr, "line %d: %s is false\n", __LINE__, #condition); \
      return 1;                                                     \
    }                                                               \
  } while (0)

int main(void) {
  pto_comm* comm = NULL;
  char text[256];
  pto_comm_options options;
  memset(&options, 0, sizeof(options));
  CHECK(pto_comm_init(NULL, &comm) == PTO_COMM_INVALID && comm == NULL);
  CHECK(pto_comm_init(&options, &comm) == PTO_COMM_INVALID);
  options.struct_size = sizeof(options);
  options.size = 1;
  options.backend = "carrier pigeon";
  options.name = "c-test";
  options.deadline_ns = pto_comm_deadline_after(1000000000);
  CHECK(pto_comm_init(&options, &comm) == PTO_COMM_NOT_SUPPORTED);
  CHECK(pto_comm_error(NULL, text, sizeof(text)) == strlen(text));
  CHECK(strstr(text, "NOT_SUPPORTED: there is no backend 'carrier pigeon'") != NULL);
  CHECK(pto_comm_error(NULL, text, 4) > 4 && strcmp(text, "NOT") == 0);
  options.backend = "local";
  CHECK(pto_comm_init(&options, &comm) == PTO_COMM_OK && comm != NULL);
  CHECK(pto_comm_barrier(comm, options.deadline_ns) == PTO_COMM_OK);
  CHECK(pto_comm_destroy(comm) == PTO_COMM_OK);
  CHECK(strcmp(pto_comm_status_name(PTO_COMM_SYSTEM), "SYSTEM") == 0);
  CHECK(strcmp(pto_comm_status_name(11), "?") == 0);
  return 0;
}
