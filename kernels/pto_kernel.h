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

/* For fields that were added to a struct later, so that older initialisers still compile. */
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

/* A scalar of the type in the kernel's signature. */
typedef union pto_scalar {
  double f64;
  int64_t i64;
} pto_scalar;

/*
 * A signal: one I32 or I64 word of device memory that is changed only by notify, so that its
 * waiters are woken. A direct write by a kernel is noticed late, if at all.
 */
typedef struct pto_signal {
  void* address;  /* aligned to its size */
  uint32_t dtype; /* PTO_I32 or PTO_I64; for defer also PTO_U32 or PTO_U64 */
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

/* What a barrier waits for: the blocks on the same chip, or all blocks of the task. */
typedef enum pto_scope { PTO_SCOPE_CHIP = 1, PTO_SCOPE_TASK = 2 } pto_scope;

/* The result of the calls below. A kernel must return any result other than PTO_OK. */
typedef enum pto_result {
  PTO_OK = 0,
  PTO_TIMED_OUT = -1,   /* the timeout of the call, or of the task, has passed */
  PTO_CANCELLED = -2,   /* the run must stop */
  PTO_NOT_ALLOWED = -3, /* this kernel or task must not make this call */
  PTO_INVALID = -4,     /* an argument is invalid */
  PTO_BROKEN = -5       /* the wait can never succeed: a block of the task has ended */
} pto_result;

/* Identifies a copy started by this block; 0 means none. */
typedef uint64_t pto_event;

struct pto_context;

/* The engine's functions for kernels. Timeouts are in ns; 0 means the run's wait timeout. */
typedef struct pto_kernel_api {
  uint32_t struct_size;
  uint32_t abi_version;
  /* Non-zero once the run must stop. Long kernels poll this now and then, and return early. */
  int (*cancelled)(const struct pto_context* context);
  /* Writes a line to the daemon's log, with run, task and block. */
  void (*log)(const struct pto_context* context, pto_log_level level, const char* text);
  /* Sets the text of the error that the kernel is about to return. The text is copied. */
  void (*set_error)(const struct pto_context* context, const char* text);

  /* Waits until the signal compares true. For kernels with PTO_KERNEL_WAITS or _BLOCKS. */
  int32_t (*wait)(const struct pto_context* context, const pto_signal* signal, pto_compare compare,
                  int64_t value, int64_t timeout);
  /* Changes the signal, after all earlier writes of the block, and wakes its waiters. The signal
     must be within one of the task's tensors. For kernels with PTO_KERNEL_NOTIFIES. */
  int32_t (*notify)(const struct pto_context* context, const pto_signal* signal, pto_notify_op op,
                    int64_t value);
  /* Waits until all blocks in the scope arrive. The task must start its blocks together. */
  int32_t (*barrier)(const struct pto_context* context, pto_scope scope);
  /*
   * Starts a copy between tensors of the same shape and type, on any chips, and returns
   * immediately. `done`, unless NULL, is notified with `op` and `value` at the end of the copy; it
   * has the same requirements as in notify. `event`, unless NULL, receives the id of the copy for
   * wait_copy and defer_copy. The tensors' memory must belong to tensors of the task.
   */
  int32_t (*copy)(const struct pto_context* context, const pto_tensor* to, const pto_tensor* from,
                  const pto_signal* done, pto_notify_op op, int64_t value, pto_event* event);
  /* Waits for a copy of this block. For kernels with PTO_KERNEL_WAITS or _BLOCKS. */
  int32_t (*wait_copy)(const struct pto_context* context, pto_event event, int64_t timeout);
  /* Delays the end of the task until the signal compares true, or the copy has ended. Returns
     immediately. The signal may also be a word of type PTO_U32 or PTO_U64 that other code writes
     directly: it compares without a sign, and is polled. */
  int32_t (*defer)(const struct pto_context* context, const pto_signal* signal, pto_compare compare,
                   int64_t value, int64_t timeout);
  int32_t (*defer_copy)(const struct pto_context* context, pto_event event, int64_t timeout);
} pto_kernel_api;

/* The input of one block of a task. */
typedef struct pto_context {
  uint32_t struct_size;
  uint32_t block_index; /* 0 … block_count - 1 */
  uint32_t block_count;
  uint32_t chip;      /* index on the node */
  uint32_t core;      /* AIC c is c; its AIVs are n + 2c and n + 2c + 1, for n clusters */
  uint32_t core_kind; /* pto_core */
  uint32_t tensor_count;
  uint32_t scalar_count;
  const pto_tensor* tensors;
  const pto_scalar* scalars;
  const pto_kernel_api* api;
  void* engine; /* for the engine */
  /*
   * A task on several chips has a member on each, with its own tensors; other tasks have one
   * member. members[m] points to the tensor_count tensors of member m.
   */
  uint32_t member_index;
  uint32_t member_count;
  const pto_tensor* const* members;
  /* The core of a cluster: 0 the cube core, 1 and 2 the vector cores. 0 except for PTO_MIX. */
  uint32_t lane;
  /* For a kernel with a plan: the phase of this call, the number of phases, the workspace. */
  uint32_t phase;
  uint32_t phase_count;
  uint32_t reserved;
  void* workspace;
  /*
   * The closure that the kernel was registered with; NULL if it has none. One function can serve
   * several kernels and distinguish them by this pointer. The engine never dereferences it. A
   * kernel that may also run in a daemon without this field must check struct_size first.
   */
  const void* kernel_data;
} pto_context;

typedef int32_t (*pto_kernel_function)(const pto_context* context);

/*
 * Checks the arguments of a task before the graph is accepted, for example that shapes agree.
 * `data` pointers are NULL. Scalars are missing because a launch may change them. Returns 0, or
 * writes the error to `message` (a C string) and returns another value.
 *
 * A check gets no closure: it decides from the tensors alone. Kernels that share a function may
 * have different checks. A kernel whose code runs in another process has none: its tasks are
 * checked against the signature (number, types and overlaps of the arguments), and errors found by
 * the code itself fail the task when it runs. A kernel with a plan can check more: plans get the
 * closure.
 */
typedef int32_t (*pto_check_function)(const pto_tensor* tensors, uint32_t tensor_count,
                                      char* message, size_t message_size);

/*
 * A kernel with a plan works in phases. The engine calls it for every block on every chip in
 * phase 0; when all these calls have returned, in phase 1; and so on. The blocks keep their cores
 * from the first phase to the end of the last; they need neither a barrier nor a stack for waiting.
 * At the start of a phase, all writes of earlier phases are visible to all blocks.
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
  uint32_t phases;          /* initially 1; at most 2^24 - 1 */
  uint64_t workspace_bytes; /* memory shared by all blocks until the task ends; 0: none */
  uint64_t phase_bytes;     /* approximate bytes read and written by a phase, on all chips */
  /*
   * The number of calls in each phase: only the first ones, counted member by member and block by
   * block, have work, and the engine makes no others. 0: all.
   */
  uint32_t calls;
  /*
   * 1: the plan depends only on the launch, not on the contents of tensors. The engine then reuses
   * it for a task with the same launch.
   */
  uint32_t fixed;
} pto_plan;

/*
 * Plans a whole task: before the graph is accepted, and again when the task starts, because a
 * launch may bind other scalars and memory. Returns 0, or writes the error to `message` and returns
 * another value.
 */
typedef int32_t (*pto_plan_function)(const pto_launch* launch, pto_plan* plan, char* message,
                                     size_t message_size);

/*
 * Estimates the least time, in ns, that all blocks of a task take together on one fast core, from
 * the tensors of one member; `data` pointers are NULL. Used to refuse tasks that cannot meet their
 * deadline by far, so it should rather be too low than too high. Like a check, it gets no closure
 * and no scalars, and a kernel whose code runs in another process has none.
 */
typedef double (*pto_cost_function)(const pto_tensor* tensors, uint32_t tensor_count);

typedef struct pto_argument_info {
  const char* name;
  pto_direction direction;
  uint32_t dtypes; /* PTO_DTYPE_BIT of the accepted types */
} pto_argument_info;

/* A set of arguments: PTO_ARGUMENT_BIT(0) | … */
#define PTO_ARGUMENT_BIT(index) (1u << (index))

/*
 * How an argument that the kernel writes may overlap other arguments of the same task. A task
 * whose arguments overlap in any other way is rejected. So is a task that writes a view whose own
 * elements overlap, because blocks would write the same memory. Arguments that are only read may
 * overlap each other; PTO_NO_DEPENDENCY arguments are not checked.
 */
typedef struct pto_overlap_info {
  /*
   * Arguments that may be exactly the same view: same first element, element type, shape and
   * strides. The kernel must read all it needs of an element before any block writes it.
   */
  uint32_t same;
  /*
   * Arguments that it may overlap in any way; with its own bit, its elements may overlap each
   * other. The kernel must read everything before it writes anything, or its plan must reject
   * unsupported overlaps.
   */
  uint32_t any;
} pto_overlap_info;

typedef struct pto_scalar_info {
  const char* name;
  pto_scalar_type type;
} pto_scalar_info;

/* Properties of a kernel's code that the engine needs to know. */
typedef enum pto_kernel_flags {
  /* It calls wait, wait_copy or barrier: it gets its own stack, and its thread does other work
     meanwhile. It must not keep thread-local state across such a call. */
  PTO_KERNEL_WAITS = 1,
  /* It blocks in code that the engine does not control: it gets its own thread while it runs. */
  PTO_KERNEL_BLOCKS = 2,
  /* It calls notify, or copy with a signal. These calls fail in other kernels, so that the daemon
     knows which tasks can still send a signal. */
  PTO_KERNEL_NOTIFIES = 4
} pto_kernel_flags;

/* Operations that the engine executes itself, without a kernel function and without a core. */
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
  /* NULL: no phases. In C++, initialisers may omit it, which also means NULL. */
  pto_plan_function plan PTO_OPTIONAL;
  /* One entry for each argument; 0 for those that are only read. NULL: no overlaps allowed. */
  const pto_overlap_info* overlaps PTO_OPTIONAL;
  /* NULL: unknown. */
  pto_cost_function cost PTO_OPTIONAL;
} pto_kernel_info;

#ifdef __cplusplus
}
#endif

#endif /* PTO_KERNELS_PTO_KERNEL_H_ */
