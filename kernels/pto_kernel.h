#ifndef PTO_KERNELS_PTO_KERNEL_H_
#define PTO_KERNELS_PTO_KERNEL_H_

/*
 * The kernel ABI of ptod, in C.
 *
 * A kernel is a function that the engine calls once for each block of a task. It gets a
 * context and returns 0, or anything else to fail the task. It must not throw, must not keep
 * pointers from the context after it returns, and may be called from any thread, for several
 * blocks at the same time.
 *
 * Every struct begins with its size, so that a kernel built against an older header works
 * with a newer daemon: fields are only ever added at the end.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PTO_KERNEL_ABI_VERSION 1u

/* What was added to a struct later, so that what was written before still compiles. */
#ifdef __cplusplus
#define PTO_OPTIONAL = nullptr
#else
#define PTO_OPTIONAL
#endif

#define PTO_MAX_DIMS 5
#define PTO_MAX_ARGS 32
#define PTO_MAX_SCALARS 16

/* Element types; the numbers are those of pto.v1.DType. */
typedef enum pto_dtype {
  PTO_F32 = 1,
  PTO_F16 = 2,
  PTO_BF16 = 3,
  PTO_F64 = 4,
  PTO_I8 = 5,
  PTO_I16 = 6,
  PTO_I32 = 7,
  PTO_I64 = 8,
  PTO_U8 = 9,
  PTO_U16 = 10,
  PTO_U32 = 11,
  PTO_U64 = 12,
  PTO_BOOL = 13
} pto_dtype;

/* A set of element types: PTO_DTYPE_BIT(PTO_F32) | … */
#define PTO_DTYPE_BIT(dtype) (1u << (dtype))
#define PTO_DTYPE_ALL 0x3ffeu

/* Kinds of core; the numbers are those of pto.v1.Core. */
typedef enum pto_core {
  PTO_AIC = 1, /* cube */
  PTO_AIV = 2, /* vector */
  PTO_MIX = 3  /* a whole cluster */
} pto_core;

/* What a kernel does with an argument; the numbers are those of pto.v1.Direction. */
typedef enum pto_direction {
  PTO_INPUT = 1,
  PTO_OUTPUT = 2,
  PTO_INOUT = 3,
  PTO_NO_DEPENDENCY = 4
} pto_direction;

typedef enum pto_scalar_type { PTO_FLOAT = 1, PTO_INTEGER = 2 } pto_scalar_type;

typedef enum pto_log_level {
  PTO_LOG_DEBUG = 0,
  PTO_LOG_INFO = 1,
  PTO_LOG_WARNING = 2,
  PTO_LOG_ERROR = 3
} pto_log_level;

/* A view of device memory. Strides are in elements and at least 1. */
typedef struct pto_tensor {
  void* data;     /* the first element; NULL in a check, and where a dimension is 0 */
  uint32_t dtype; /* pto_dtype */
  uint32_t ndim;  /* 0 (one element) to PTO_MAX_DIMS */
  int64_t shape[PTO_MAX_DIMS];
  int64_t strides[PTO_MAX_DIMS];
} pto_tensor;

/* A scalar, as the kernel's signature says. */
typedef union pto_scalar {
  double f64;
  int64_t i64;
} pto_scalar;

/*
 * A signal: one I32 or I64 word of device memory that is only ever changed by notify, so that
 * whoever waits for it is woken. What a kernel writes there directly is seen late, if at all.
 */
typedef struct pto_signal {
  void* address;  /* aligned to its size */
  uint32_t dtype; /* PTO_I32 or PTO_I64 */
} pto_signal;

/* How a word compares with a value; the numbers are those of pto.v1.Comparison. */
typedef enum pto_compare {
  PTO_EQ = 1,
  PTO_NE = 2,
  PTO_GT = 3,
  PTO_GE = 4,
  PTO_LT = 5,
  PTO_LE = 6
} pto_compare;

/* How notify changes a word. */
typedef enum pto_notify_op { PTO_SET = 1, PTO_ADD = 2 } pto_notify_op;

/* Whom a barrier waits for: the blocks on the same chip, or all blocks of the task. */
typedef enum pto_scope { PTO_SCOPE_CHIP = 1, PTO_SCOPE_TASK = 2 } pto_scope;

/* What the calls below return. A kernel that gets anything but PTO_OK returns it. */
typedef enum pto_result {
  PTO_OK = 0,
  PTO_TIMED_OUT = -1,   /* the call's own time, or that of the task, is up */
  PTO_CANCELLED = -2,   /* the run is to stop */
  PTO_NOT_ALLOWED = -3, /* this kernel, or this task, must not make this call */
  PTO_INVALID = -4,     /* an argument makes no sense */
  PTO_BROKEN = -5       /* what was waited for can never come: a block of the task has ended */
} pto_result;

/* Names a copy that was begun by this block; 0 names none. */
typedef uint64_t pto_event;

struct pto_context;

/* What a kernel can ask of the engine. Times are in ns; 0 means the run's limit for waits. */
typedef struct pto_kernel_api {
  uint32_t struct_size;
  uint32_t abi_version;
  /* Non-zero once the run is to stop. A long kernel looks now and then, and returns early. */
  int (*cancelled)(const struct pto_context* context);
  /* Writes a line to the daemon's log, with run, task and block. */
  void (*log)(const struct pto_context* context, pto_log_level level, const char* text);
  /* Says why the kernel is about to return an error. The text is copied. */
  void (*set_error)(const struct pto_context* context, const char* text);

  /* Waits until the signal compares true. For kernels with PTO_KERNEL_WAITS or _BLOCKS. */
  int32_t (*wait)(const struct pto_context* context, const pto_signal* signal, pto_compare compare,
                  int64_t value, int64_t timeout);
  /* Changes the signal, after everything that the block wrote before, and wakes who waits. The
     signal lies within one of the task's tensors. For kernels with PTO_KERNEL_NOTIFIES. */
  int32_t (*notify)(const struct pto_context* context, const pto_signal* signal, pto_notify_op op,
                    int64_t value);
  /* Waits until all blocks in the scope are here. Their task must start its blocks together. */
  int32_t (*barrier)(const struct pto_context* context, pto_scope scope);
  /*
   * Begins a copy between tensors of one shape and type, on whatever chips, and returns at once.
   * `done`, unless NULL, is notified with `op` and `value` when it is over; what holds for notify
   * holds for it. `event`, unless NULL, names the copy for the two calls below. The tensors' memory
   * must be that of the task's.
   */
  int32_t (*copy)(const struct pto_context* context, const pto_tensor* to, const pto_tensor* from,
                  const pto_signal* done, pto_notify_op op, int64_t value, pto_event* event);
  /* Waits for a copy of this block. For kernels with PTO_KERNEL_WAITS or _BLOCKS. */
  int32_t (*wait_copy)(const struct pto_context* context, pto_event event, int64_t timeout);
  /* The task ends only when the signal compares true, or the copy is over. Returns at once. */
  int32_t (*defer)(const struct pto_context* context, const pto_signal* signal, pto_compare compare,
                   int64_t value, int64_t timeout);
  int32_t (*defer_copy)(const struct pto_context* context, pto_event event, int64_t timeout);
} pto_kernel_api;

/* What one block of a task gets. */
typedef struct pto_context {
  uint32_t struct_size;
  uint32_t block_index; /* 0 … block_count - 1 */
  uint32_t block_count;
  uint32_t chip;      /* index on the node */
  uint32_t core;      /* AIC c is c; AIV are n + 2c and n + 2c + 1, n the chip's clusters */
  uint32_t core_kind; /* pto_core */
  uint32_t tensor_count;
  uint32_t scalar_count;
  const pto_tensor* tensors;
  const pto_scalar* scalars;
  const pto_kernel_api* api;
  void* engine; /* the engine's own */
  /*
   * A task over several chips has a member on each, with tensors of its own; other tasks have
   * one member. members[m] are the tensors of member m, tensor_count of them.
   */
  uint32_t member_index;
  uint32_t member_count;
  const pto_tensor* const* members;
  /* Which core of a cluster: 0 the cube core, 1 and 2 the vector cores. 0 but for PTO_MIX. */
  uint32_t lane;
  /* Of a kernel with a plan: which phase of how many this call belongs to, and the workspace. */
  uint32_t phase;
  uint32_t phase_count;
  uint32_t reserved;
  void* workspace;
  /*
   * The closure that the kernel was registered with, NULL if it has none. One function can serve
   * several kernels and tells them apart by this pointer. The engine never looks at what it
   * points to. A kernel that may also run in a daemon without this field checks struct_size
   * before it reads the field.
   */
  const void* kernel_data;
} pto_context;

typedef int32_t (*pto_kernel_function)(const pto_context* context);

/*
 * Checks the arguments of a task before the graph is accepted, for example that shapes agree.
 * `data` pointers are NULL. Scalars are missing because a launch may change them. Returns 0, or
 * writes what is wrong to `message` (a C string) and returns another value.
 *
 * A check gets no closure: it decides from the tensors alone. Kernels that share a function may
 * have different checks. A kernel whose code runs in another process has none: its tasks are
 * checked against the signature (number, types and overlaps of the arguments), and what the code
 * itself refuses fails the task when it runs. A kernel with a plan can check more: plans get the
 * closure.
 */
typedef int32_t (*pto_check_function)(const pto_tensor* tensors, uint32_t tensor_count,
                                      char* message, size_t message_size);

/*
 * A kernel with a plan works in phases. The engine calls it for every block on every chip in
 * phase 0, and, when all of these calls have returned, in phase 1, and so on. Its blocks have
 * their cores from the first phase to the end of the last; they need no barrier, and no stack to
 * wait on. Between phases everything that blocks wrote is visible to all.
 */
typedef struct pto_launch {
  uint32_t struct_size;
  uint32_t member_count;
  uint32_t block_count; /* of each member */
  uint32_t tensor_count;
  uint32_t scalar_count;
  uint32_t reserved;
  const pto_tensor* const* members; /* as in pto_context; `data` is NULL in a check */
  const pto_scalar* scalars;
  const void* kernel_data; /* as in pto_context */
} pto_launch;

typedef struct pto_plan {
  uint32_t struct_size;
  uint32_t phases;          /* 1 unless the kernel says more; more than 2^24 - 1 are refused */
  uint64_t workspace_bytes; /* memory that all blocks share until the task ends; 0: none */
  uint64_t phase_bytes;     /* about how much a phase reads and writes, on all chips together */
  /*
   * How many calls of each phase have something to do: the first ones, counted member by member
   * and block by block. The engine makes no others. 0: all have.
   */
  uint32_t calls;
  /*
   * 1: all of this follows from the launch alone, not from what is in the tensors' memory. The
   * engine does not ask again for a task with the same launch.
   */
  uint32_t fixed;
} pto_plan;

/*
 * Looks at all of a task at once: before the graph is accepted, and again when the task starts,
 * since a launch may bind other scalars and memory. Returns 0, or writes what is wrong to `message`
 * and returns something else.
 */
typedef int32_t (*pto_plan_function)(const pto_launch* launch, pto_plan* plan, char* message,
                                     size_t message_size);

typedef struct pto_argument_info {
  const char* name;
  pto_direction direction;
  uint32_t dtypes; /* PTO_DTYPE_BIT of what is accepted */
} pto_argument_info;

/* A set of arguments: PTO_ARGUMENT_BIT(0) | … */
#define PTO_ARGUMENT_BIT(index) (1u << (index))

/*
 * Which memory an argument that the kernel writes may share with other arguments of the same task.
 * A task whose arguments overlap in any other way is refused. So is one that writes a view whose
 * own elements overlap, since blocks would write the same memory. Arguments that are only read may
 * overlap each other, and PTO_NO_DEPENDENCY ones are not looked at.
 */
typedef struct pto_overlap_info {
  /*
   * Arguments that may be the very same view: the same first element, element type, shape and
   * strides. The kernel reads what it needs of an element before it, or any block, writes there.
   */
  uint32_t same;
  /*
   * Arguments that it may overlap in any way; with its own bit, its elements may overlap each
   * other. The kernel reads everything before it writes anything, or its plan refuses what it
   * cannot do.
   */
  uint32_t any;
} pto_overlap_info;

typedef struct pto_scalar_info {
  const char* name;
  pto_scalar_type type;
} pto_scalar_info;

/* What the engine has to know of a kernel's code. */
typedef enum pto_kernel_flags {
  /* It calls wait, wait_copy or barrier: it gets a stack of its own, and its thread is free
     for others meanwhile. It must not keep thread-local state across such a call. */
  PTO_KERNEL_WAITS = 1,
  /* It blocks in code of others: it gets a thread of its own while it runs. */
  PTO_KERNEL_BLOCKS = 2,
  /* It calls notify, or copy with a signal. Other kernels are refused such calls, so that the
     daemon knows who can still send a signal and who cannot. */
  PTO_KERNEL_NOTIFIES = 4
} pto_kernel_flags;

/* What the engine does itself, without a kernel function and without a core. */
typedef enum pto_control {
  PTO_CONTROL_NONE = 0,
  PTO_CONTROL_JOIN = 1,   /* nothing */
  PTO_CONTROL_NOTIFY = 2, /* tensors: signal; scalars: op, value */
  PTO_CONTROL_WAIT = 3,   /* tensors: signal [, token]; scalars: compare, value, timeout */
  PTO_CONTROL_COPY = 4    /* tensors: to, from */
} pto_control;

/* Describes a kernel. All strings and arrays live as long as the kernel. */
typedef struct pto_kernel_info {
  uint32_t struct_size;
  const char* name;        /* a-z 0-9 _, starting with a letter, at most 63 */
  const char* description; /* one sentence */
  pto_kernel_function function;
  pto_check_function check; /* NULL: nothing to check beyond the signature */
  pto_core default_core;
  const pto_argument_info* arguments;
  uint32_t argument_count;
  const pto_scalar_info* scalars;
  uint32_t scalar_count;
  uint32_t requires_sync_start; /* 0 or 1 */
  uint32_t flags;               /* pto_kernel_flags */
  uint32_t control;             /* pto_control; then there is no function */
  /* NULL: it has no phases. In C++ that is also what an initialiser means that leaves it out. */
  pto_plan_function plan PTO_OPTIONAL;
  /* One for each argument, 0 for those that are only read. NULL: no argument may overlap. */
  const pto_overlap_info* overlaps PTO_OPTIONAL;
} pto_kernel_info;

#ifdef __cplusplus
}
#endif

#endif /* PTO_KERNELS_PTO_KERNEL_H_ */
