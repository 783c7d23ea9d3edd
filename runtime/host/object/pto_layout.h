#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/pto_kernel.h"

// What a kernel of the PTO ABI reads and writes in memory, byte for byte. Little endian, 64 bits.
// The kernels are compiled already: nothing here can ever change.
namespace pto::host {

// ---- the words that kernel_entry gets

inline constexpr uint32_t kPtoWords = 50;
inline constexpr uint32_t kPtoMaxTensors = 32;
inline constexpr uint32_t kPtoMaxScalars = 16;
inline constexpr uint32_t kPtoLocalWord = 48;   // the address of the local context
inline constexpr uint32_t kPtoGlobalWord = 49;  // the address of the global context

using PtoEntry = void (*)(int64_t* words);

// ---- tensors

enum class PtoType : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kI32 = 2,
  kI16 = 3,
  kI8 = 4,
  kU8 = 5,
  kBf16 = 6,
  kI64 = 7,
  kU64 = 8,
  kU16 = 9,
  kU32 = 10,
  kBool = 11,
  kFp8E4m3fn = 12,
  kFp8E8m0 = 13,
  kFp4E2m1 = 14,  // an element is a byte with a pair of numbers
};
inline constexpr uint32_t kPtoTypes = 15;

inline constexpr uint64_t kPtoNoTask = ~uint64_t{0};

struct alignas(64) PtoTensor {
  uint64_t buffer_address;  // of the buffer's first byte
  uint64_t buffer_bytes;
  uint64_t owner_task;    // kPtoNoTask: none
  uint64_t start_offset;  // of the view, in elements
  uint32_t version;
  uint32_t ndim;  // 1 to 5
  uint8_t dtype;  // PtoType
  uint8_t manual_dependency;
  uint8_t contiguous;
  uint8_t address_space;  // 0: host, 1: device
  uint32_t shape[5];
  uint64_t extent;      // in elements, from the first to behind the last
  uint32_t strides[5];  // in elements, each > 0
  uint8_t reserved[36];
};
static_assert(sizeof(PtoTensor) == 128 && alignof(PtoTensor) == 64);
static_assert(offsetof(PtoTensor, buffer_address) == 0);
static_assert(offsetof(PtoTensor, buffer_bytes) == 8);
static_assert(offsetof(PtoTensor, owner_task) == 16);
static_assert(offsetof(PtoTensor, start_offset) == 24);
static_assert(offsetof(PtoTensor, version) == 32);
static_assert(offsetof(PtoTensor, ndim) == 36);
static_assert(offsetof(PtoTensor, dtype) == 40);
static_assert(offsetof(PtoTensor, manual_dependency) == 41);
static_assert(offsetof(PtoTensor, contiguous) == 42);
static_assert(offsetof(PtoTensor, address_space) == 43);
static_assert(offsetof(PtoTensor, shape) == 44);
static_assert(offsetof(PtoTensor, extent) == 64);
static_assert(offsetof(PtoTensor, strides) == 72);
static_assert(offsetof(PtoTensor, reserved) == 92);

// ---- one for each block

inline constexpr uint32_t kPtoMaxConditions = 64;
inline constexpr uint64_t kPtoNoDeferral = ~uint64_t{0};  // as task_token

// How a condition compares.
enum class PtoConditionType : int32_t {
  kCounter = 0,      // the u32 at the address >= expected
  kEventRecord = 1,  // the u64 at the address >= cookie
};

// What must hold before a task ends whose kernel has returned.
struct PtoConditionEntry {
  uint64_t address;
  uint64_t cookie;
  uint32_t expected;
  uint32_t engine;  // 0: SDMA, 1: RoCE, 2: URMA, 3: CCU
  int32_t type;     // PtoConditionType
  uint32_t padding;
};
static_assert(sizeof(PtoConditionEntry) == 32);
static_assert(offsetof(PtoConditionEntry, address) == 0);
static_assert(offsetof(PtoConditionEntry, cookie) == 8);
static_assert(offsetof(PtoConditionEntry, expected) == 16);
static_assert(offsetof(PtoConditionEntry, engine) == 20);
static_assert(offsetof(PtoConditionEntry, type) == 24);

inline constexpr int32_t kPtoErrorInvalid = 101;
inline constexpr int32_t kPtoErrorTooManyConditions = 102;

struct PtoLocalContext {
  uint32_t block_index;
  uint32_t block_count;
  uint64_t condition_count;  // the address of a u32
  uint64_t error_code;       // the address of an i32
  uint64_t conditions;       // the address of the entries
  uint32_t capacity;         // of the entries
  uint32_t padding;
  uint64_t task_token;
};
static_assert(sizeof(PtoLocalContext) == 48);
static_assert(offsetof(PtoLocalContext, block_index) == 0);
static_assert(offsetof(PtoLocalContext, block_count) == 4);
static_assert(offsetof(PtoLocalContext, condition_count) == 8);
static_assert(offsetof(PtoLocalContext, error_code) == 16);
static_assert(offsetof(PtoLocalContext, conditions) == 24);
static_assert(offsetof(PtoLocalContext, capacity) == 32);
static_assert(offsetof(PtoLocalContext, task_token) == 40);

// ---- one for each core

struct PtoGlobalContext {
  int32_t sub_block;  // 1 on the second vector core of a cluster, otherwise 0
  uint32_t padding;
  uint64_t dma_workspaces[2];  // 0: a simulated chip has none
};
static_assert(sizeof(PtoGlobalContext) == 24);
static_assert(offsetof(PtoGlobalContext, sub_block) == 0);
static_assert(offsetof(PtoGlobalContext, dma_workspaces) == 8);

// ---- one for each rank of a domain

inline constexpr uint32_t kPtoMaxRanks = 64;

struct PtoCommContext {
  uint64_t workspace;
  uint64_t workspace_bytes;
  uint32_t rank;
  uint32_t rank_count;
  uint64_t window_bytes;
  uint64_t windows_in[kPtoMaxRanks];
  uint64_t windows_out[kPtoMaxRanks];
};
static_assert(sizeof(PtoCommContext) == 1056);
static_assert(offsetof(PtoCommContext, workspace) == 0);
static_assert(offsetof(PtoCommContext, workspace_bytes) == 8);
static_assert(offsetof(PtoCommContext, rank) == 16);
static_assert(offsetof(PtoCommContext, rank_count) == 20);
static_assert(offsetof(PtoCommContext, window_bytes) == 24);
static_assert(offsetof(PtoCommContext, windows_in) == 32);
static_assert(offsetof(PtoCommContext, windows_out) == 544);

}  // namespace pto::host
