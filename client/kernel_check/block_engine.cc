#include "client/kernel_check/block_engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/kernel_check/crash_record.h"
#include "kernels/comparison.h"
#include "kernels/dtype.h"

namespace pto::kernel_check {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kLook{50};
constexpr uint32_t kCallsThatWait = PTO_KERNEL_WAITS | PTO_KERNEL_BLOCKS;

thread_local CurrentBlock current = {0, 0};

// The word of a signal. Unsigned ones come from conditions of the PTO ABI.
int64_t Load(const pto_signal& signal) {
  if (kernels::DtypeSize(signal.dtype) == 8) {
    return __atomic_load_n(static_cast<const int64_t*>(signal.address), __ATOMIC_ACQUIRE);
  }
  if (signal.dtype == PTO_U32) {
    return __atomic_load_n(static_cast<const uint32_t*>(signal.address), __ATOMIC_ACQUIRE);
  }
  return __atomic_load_n(static_cast<const int32_t*>(signal.address), __ATOMIC_ACQUIRE);
}

bool Holds(const pto_signal& signal, pto_compare compare, int64_t value) {
  if (signal.dtype == PTO_U64) {
    return Compares(compare, static_cast<uint64_t>(Load(signal)), static_cast<uint64_t>(value));
  }
  return Compares(compare, Load(signal), value);
}

template <typename T>
void Change(void* address, pto_notify_op op, int64_t value) {
  T* const word = static_cast<T*>(address);
  if (op == PTO_ADD) {
    __atomic_fetch_add(word, static_cast<T>(value), __ATOMIC_ACQ_REL);
  } else {
    __atomic_store_n(word, static_cast<T>(value), __ATOMIC_RELEASE);
  }
}

// Copies one element after the other.
void CopyElements(const pto_tensor& to, const pto_tensor& from) {
  int64_t size = 1;
  for (uint32_t d = 0; d < to.ndim; ++d) size *= to.shape[d];
  const size_t bytes = kernels::DtypeSize(to.dtype);
  for (int64_t i = 0; i < size; ++i) {
    int64_t rest = i, to_offset = 0, from_offset = 0;
    for (uint32_t d = to.ndim; d-- > 0;) {
      to_offset += rest % to.shape[d] * to.strides[d];
      from_offset += rest % to.shape[d] * from.strides[d];
      rest /= to.shape[d];
    }
    std::memcpy(static_cast<char*>(to.data) + static_cast<size_t>(to_offset) * bytes,
                static_cast<const char*>(from.data) + static_cast<size_t>(from_offset) * bytes,
                bytes);
  }
}

}  // namespace

CurrentBlock CurrentBlockOfThread() { return current; }

BlockEngine::BlockEngine(const Task& task, const std::atomic<uint32_t>& cancelled, int64_t wait_ns)
    : task_(task), cancelled_(cancelled), wait_ns_(wait_ns) {
  meetings_.resize(task.members.size() + 1);
  for (size_t m = 0; m < task.members.size(); ++m) meetings_[m].expected = task.blocks;
  meetings_.back().expected = static_cast<uint32_t>(task.members.size()) * task.blocks;
}

const pto_kernel_api& BlockEngine::Api() {
  static const pto_kernel_api api = [] {
    pto_kernel_api all = {};
    all.struct_size = sizeof all;
    all.abi_version = PTO_KERNEL_ABI_VERSION;
    all.cancelled = [](const pto_context* context) {
      return BlockOf(context).engine->IsCancelled() ? 1 : 0;
    };
    all.log = [](const pto_context*, pto_log_level, const char*) {};
    all.set_error = [](const pto_context* context, const char* text) {
      BlockOf(context).error = text == nullptr ? "" : text;
    };
    all.wait = [](const pto_context* context, const pto_signal* signal, pto_compare compare,
                  int64_t value, int64_t) {
      Block& block = BlockOf(context);
      return block.engine->Wait(block, signal, compare, value);
    };
    all.notify = [](const pto_context* context, const pto_signal* signal, pto_notify_op op,
                    int64_t value) {
      Block& block = BlockOf(context);
      return block.engine->Notify(block, signal, op, value);
    };
    all.barrier = [](const pto_context* context, pto_scope scope) {
      Block& block = BlockOf(context);
      return block.engine->Barrier(block, scope);
    };
    all.copy = [](const pto_context* context, const pto_tensor* to, const pto_tensor* from,
                  const pto_signal* done, pto_notify_op op, int64_t value, pto_event* event) {
      Block& block = BlockOf(context);
      return block.engine->Copy(block, to, from, done, op, value, event);
    };
    all.wait_copy = [](const pto_context* context, pto_event event, int64_t) {
      Block& block = BlockOf(context);
      if ((block.engine->task_.info->flags & kCallsThatWait) == 0) {
        return block.engine->Refuse(block, PTO_NOT_ALLOWED,
                                    "wait_copy without the flag PTO_KERNEL_WAITS");
      }
      if (event == 0 || event > block.copies) {
        return block.engine->Refuse(block, PTO_INVALID, "wait_copy for no copy of this block");
      }
      return block.engine->Answer(block, block.engine->IsCancelled() ? PTO_CANCELLED : PTO_OK);
    };
    all.defer = [](const pto_context* context, const pto_signal* signal, pto_compare compare,
                   int64_t value, int64_t) {
      Block& block = BlockOf(context);
      return block.engine->Defer(block, signal, compare, value);
    };
    all.defer_copy = [](const pto_context* context, pto_event event, int64_t) {
      Block& block = BlockOf(context);
      if (event == 0 || event > block.copies) {
        return block.engine->Refuse(block, PTO_INVALID, "defer_copy for no copy of this block");
      }
      return static_cast<int32_t>(PTO_OK);
    };
    return all;
  }();
  return api;
}

TaskResult BlockEngine::Run() {
  std::vector<Block> blocks;
  for (uint32_t m = 0; m < task_.members.size(); ++m) {
    for (uint32_t b = 0; b < task_.blocks; ++b) blocks.push_back({this, m, b});
  }
  if (task_.order == BlockOrder::kTogether) {
    std::vector<std::thread> threads;
    for (Block& block : blocks) {
      threads.emplace_back([this, &block] {
        const CrashStack stack;
        RunBlock(block);
      });
    }
    for (std::thread& thread : threads) thread.join();
  } else {
    if (task_.order == BlockOrder::kDescending) std::reverse(blocks.begin(), blocks.end());
    for (Block& block : blocks) RunBlock(block);
  }
  AwaitDeferred();
  MutexLock lock(mutex_);
  return std::move(result_);
}

void BlockEngine::RunBlock(Block& block) {
  current = {block.member, block.index};
  std::vector<const pto_tensor*> members;
  for (const std::vector<pto_tensor>& tensors : task_.members) members.push_back(tensors.data());
  pto_context context = {};
  context.struct_size = sizeof context;
  context.block_index = block.index;
  context.block_count = task_.blocks;
  context.chip = block.member;
  context.core = block.index;
  context.core_kind = task_.info->default_core;
  context.tensors = task_.members[block.member].data();
  context.tensor_count = static_cast<uint32_t>(task_.members[block.member].size());
  context.scalars = task_.scalars.data();
  context.scalar_count = static_cast<uint32_t>(task_.scalars.size());
  context.api = &Api();
  context.engine = &block;
  context.member_index = block.member;
  context.member_count = static_cast<uint32_t>(task_.members.size());
  context.members = members.data();
  context.phase_count = 1;
  context.kernel_data = task_.kernel_data;
  host::PtoCallInfo call;
  call.run = 1;
  call.buffers = task_.buffers[block.member];
  const host::PtoCallScope scope(call);
  int32_t code = PTO_OK;
  try {
    code = task_.info->function(&context);
  } catch (...) {
    Complain(Problem::kBadCode, "an exception left the kernel: it would end the host");
    code = PTO_INVALID;
    block.error = "an exception";
  }
  CheckCode(block, code);
  EndOfBlock(block);
}

void BlockEngine::CheckCode(const Block& block, int32_t code) {
  if (code == PTO_OK && block.refused != PTO_OK && !IsCancelled()) {
    Complain(Problem::kBadCode,
             absl::StrCat("a call of the API failed with ", block.refused,
                          ", and the kernel returned PTO_OK: it must return what the call did"));
  } else if (code == PTO_CANCELLED && !IsCancelled()) {
    Complain(Problem::kBadCode, "it returned PTO_CANCELLED, but nobody had set the cancel flag");
  } else if (code == PTO_TIMED_OUT && !block.timed_out) {
    Complain(Problem::kBadCode, "it returned PTO_TIMED_OUT, but no call of it had timed out");
  } else if (code != PTO_OK && block.error.empty() && block.refused == PTO_OK && !IsCancelled()) {
    Complain(Problem::kBadCode,
             absl::StrCat("it returned ", code,
                          " without set_error: its task would fail without a reason"));
  }
  MutexLock lock(mutex_);
  ++result_.calls;
  if (code == PTO_OK || result_.code != PTO_OK) return;
  result_.code = code;
  result_.error = block.error;
}

void BlockEngine::EndOfBlock(const Block& block) {
  MutexLock lock(mutex_);
  for (const size_t m : {static_cast<size_t>(block.member), task_.members.size()}) {
    Meeting& meeting = meetings_[m];
    // Whoever waits there waits for this block too.
    if (meeting.arrived > 0) meeting.broken = true;
    --meeting.expected;
  }
  met_.NotifyAll();
}

void BlockEngine::AwaitDeferred() {
  std::vector<Deferred> deferred;
  {
    MutexLock lock(mutex_);
    if (result_.code != PTO_OK) return;
    deferred = std::move(deferred_);
  }
  for (const Deferred& each : deferred) {
    if (Await(each.signal, each.compare, each.value) != PTO_TIMED_OUT) continue;
    Complain(Problem::kNeverSatisfied,
             absl::StrCat("the end of the task is delayed until a word of ",
                          NameOf(each.signal.address), " is ", CompareText(each.compare), " ",
                          each.value, "; it is ", Load(each.signal)));
  }
}

int32_t BlockEngine::Answer(Block& block, int32_t result) {
  if (result != PTO_OK && block.refused == PTO_OK) block.refused = result;
  if (result == PTO_TIMED_OUT) block.timed_out = true;
  return result;
}

int32_t BlockEngine::Refuse(Block& block, int32_t result, const std::string& text) {
  Complain(Problem::kCallRefused, text);
  return Answer(block, result);
}

void BlockEngine::Complain(Problem problem, const std::string& text) {
  MutexLock lock(mutex_);
  for (const TaskResult::Complaint& complaint : result_.complaints) {
    if (complaint.problem == problem) return;
  }
  result_.complaints.push_back({problem, text});
}

bool BlockEngine::Owns(const void* address, uint64_t bytes) const {
  const auto* const at = static_cast<const char*>(address);
  for (const std::vector<host::PtoBuffer>& buffers : task_.buffers) {
    for (const host::PtoBuffer& buffer : buffers) {
      const auto* const begin = static_cast<const char*>(buffer.address);
      if (at >= begin && at + bytes <= begin + buffer.bytes) return true;
    }
  }
  return false;
}

std::string BlockEngine::NameOf(const void* address) const {
  const auto* const at = static_cast<const char*>(address);
  for (const std::vector<host::PtoBuffer>& buffers : task_.buffers) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      const auto* const begin = static_cast<const char*>(buffers[i].address);
      if (at >= begin && at < begin + buffers[i].bytes) return task_.info->arguments[i].name;
    }
  }
  return "no tensor";
}

std::string BlockEngine::Fault(const pto_signal* signal) const {
  if (signal == nullptr || signal->address == nullptr) return "the signal is null";
  const uint64_t bytes = kernels::DtypeSize(signal->dtype);
  if (bytes < 4 || signal->dtype == PTO_F32 || signal->dtype == PTO_F64) {
    return "a signal is an I32 or I64 word";
  }
  if (reinterpret_cast<uintptr_t>(signal->address) % bytes != 0) return "the signal is not aligned";
  if (!Owns(signal->address, bytes)) return "the signal is in no tensor of the task";
  return "";
}

int32_t BlockEngine::Await(const pto_signal& signal, pto_compare compare, int64_t value) {
  const Clock::time_point end = Clock::now() + std::chrono::nanoseconds(wait_ns_);
  while (!Holds(signal, compare, value)) {
    if (IsCancelled()) return PTO_CANCELLED;
    if (Clock::now() >= end) return PTO_TIMED_OUT;
    std::this_thread::sleep_for(kLook);
  }
  return PTO_OK;
}

int32_t BlockEngine::Wait(Block& block, const pto_signal* signal, pto_compare compare,
                          int64_t value) {
  if ((task_.info->flags & kCallsThatWait) == 0) {
    return Refuse(block, PTO_NOT_ALLOWED, "wait without the flag PTO_KERNEL_WAITS");
  }
  if (const std::string fault = Fault(signal); !fault.empty()) {
    return Refuse(block, PTO_INVALID, absl::StrCat("wait: ", fault));
  }
  const int32_t result = Await(*signal, compare, value);
  if (result == PTO_TIMED_OUT) {
    Complain(Problem::kNeverSatisfied,
             absl::StrCat("a wait until a word of ", NameOf(signal->address), " is ",
                          CompareText(compare), " ", value, " never ended; the word is ",
                          Load(*signal)));
  }
  return Answer(block, result);
}

int32_t BlockEngine::Notify(Block& block, const pto_signal* signal, pto_notify_op op,
                            int64_t value) {
  if ((task_.info->flags & PTO_KERNEL_NOTIFIES) == 0) {
    return Refuse(block, PTO_NOT_ALLOWED, "notify without the flag PTO_KERNEL_NOTIFIES");
  }
  if (const std::string fault = Fault(signal); !fault.empty()) {
    return Refuse(block, PTO_INVALID, absl::StrCat("notify: ", fault));
  }
  if (kernels::DtypeSize(signal->dtype) == 8) {
    Change<int64_t>(signal->address, op, value);
  } else {
    Change<int32_t>(signal->address, op, value);
  }
  return PTO_OK;
}

int32_t BlockEngine::Barrier(Block& block, pto_scope scope) {
  if (task_.info->requires_sync_start == 0) {
    return Refuse(block, PTO_NOT_ALLOWED,
                  "barrier, but the kernel does not require its blocks to start together");
  }
  int32_t result = PTO_OK;
  bool failed = false;  // a block, which explains why it does not come
  {
    MutexLock lock(mutex_);
    Meeting& meeting = scope == PTO_SCOPE_CHIP ? meetings_[block.member] : meetings_.back();
    const uint64_t generation = meeting.generation;
    const uint32_t all = scope == PTO_SCOPE_CHIP
                             ? task_.blocks
                             : static_cast<uint32_t>(task_.members.size()) * task_.blocks;
    // A block that has ended does not come.
    if (meeting.expected < all) meeting.broken = true;
    if (++meeting.arrived >= all) {
      meeting.arrived = 0;
      ++meeting.generation;
      met_.NotifyAll();
    }
    while (meeting.generation == generation && !meeting.broken && !IsCancelled()) {
      met_.WaitFor(mutex_, std::chrono::milliseconds(10));
    }
    if (meeting.generation == generation) result = IsCancelled() ? PTO_CANCELLED : PTO_BROKEN;
    failed = result_.code != PTO_OK;
  }
  if (result == PTO_BROKEN && !failed) {
    Complain(Problem::kNeverSatisfied,
             "a block waits at a barrier for a block that has ended without coming to it");
  }
  return Answer(block, result);
}

int32_t BlockEngine::Copy(Block& block, const pto_tensor* to, const pto_tensor* from,
                          const pto_signal* done, pto_notify_op op, int64_t value,
                          pto_event* event) {
  if (to == nullptr || from == nullptr || to->dtype != from->dtype || to->ndim != from->ndim ||
      !std::equal(to->shape, to->shape + std::min<uint32_t>(to->ndim, PTO_MAX_DIMS), from->shape)) {
    return Refuse(block, PTO_INVALID, "copy between views of different types or shapes");
  }
  if (to->data != nullptr && from->data != nullptr) {
    if (!Owns(to->data, 1) || !Owns(from->data, 1)) {
      return Refuse(block, PTO_INVALID, "copy of memory that belongs to no tensor of the task");
    }
    CopyElements(*to, *from);
  }
  if (event != nullptr) *event = ++block.copies;
  return done == nullptr ? PTO_OK : Notify(block, done, op, value);
}

int32_t BlockEngine::Defer(Block& block, const pto_signal* signal, pto_compare compare,
                           int64_t value) {
  if (const std::string fault = Fault(signal); !fault.empty()) {
    return Refuse(block, PTO_INVALID, absl::StrCat("defer: ", fault));
  }
  MutexLock lock(mutex_);
  deferred_.push_back({*signal, compare, value});
  return PTO_OK;
}

}  // namespace pto::kernel_check
