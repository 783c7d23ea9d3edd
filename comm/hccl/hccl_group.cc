#include "comm/hccl/hccl_group.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/chip/ascend/cann/acl_codes.h"

namespace pto::comm {
namespace {

constexpr int kMostRanks = 64;
constexpr int kLeaveTries = 50;
constexpr absl::Duration kLeaveTime = absl::Seconds(1);

void* Pointer(uint64_t address) { return reinterpret_cast<void*>(address); }  // NOLINT

int32_t Milliseconds(absl::Duration timeout) {
  return static_cast<int32_t>(std::clamp<int64_t>(absl::ToInt64Milliseconds(timeout), 0,
                                                  std::numeric_limits<int32_t>::max()));
}

}  // namespace

absl::StatusOr<cann::HcclRoot> HcclGroup::MakeRoot(const cann::Functions& cann) {
  cann::HcclRoot root = {};
  const int code = cann.HcclGetRootInfo(&root);
  if (code != cann::kHcclOk) {
    return cann::HcclStatus(code, "making the root of a communicator", cann.aclGetRecentErrMsg());
  }
  return root;
}

absl::StatusOr<std::unique_ptr<HcclGroup>> HcclGroup::Join(const cann::Functions& cann,
                                                           const cann::HcclRoot& root,
                                                           uint32_t rank, uint32_t size,
                                                           cann::AclStream stream,
                                                           const HcclOptions& options) {
  if (size == 0 || size > kMostRanks || rank >= size) {
    return Error(reason::kFieldInvalid, absl::StrCat("rank ", rank, " of ", size)).At("rank");
  }
  std::unique_ptr<HcclGroup> group(new HcclGroup(cann, rank, size, stream, options.name));
  const uint32_t capability =
      cann.HcclGetCommConfigCapability == nullptr ? 0 : cann.HcclGetCommConfigCapability();
  const HcclConfig config(options, capability);
  PTO_RETURN_IF_ERROR(group->CheckHccl(
      cann.HcclCommInitRootInfoConfig(size, &root, rank, config.data(), &group->comm_),
      absl::StrCat("joining communicator '", options.name, "' as rank ", rank, " of ", size)));
  uint32_t own_rank = 0;
  uint32_t own_size = 0;
  PTO_RETURN_IF_ERROR(group->CheckHccl(cann.HcclGetRankId(group->comm_, &own_rank), "its rank"));
  PTO_RETURN_IF_ERROR(group->CheckHccl(cann.HcclGetRankSize(group->comm_, &own_size), "its size"));
  if (own_rank != rank || own_size != size) {
    return Error(reason::kDeviceFailed, absl::StrCat("HCCL made this rank ", own_rank, " of ",
                                                     own_size, ", not ", rank, " of ", size));
  }
  PTO_RETURN_IF_ERROR(group->WarmUp(options.warm_up_timeout));
  return group;
}

HcclGroup::~HcclGroup() { (void)Leave(); }

absl::Status HcclGroup::WarmUp(absl::Duration timeout) {
  const cann::AclError code = cann_.aclrtMalloc(&word_, 64, cann::kHugeFirst);
  if (code != cann::kAclOk) {
    return cann::AclStatus(code, "allocating the word of barriers", cann_.aclGetRecentErrMsg());
  }
  const cann::AclError cleared = cann_.aclrtMemset(word_, 64, 0, 64);
  if (cleared != cann::kAclOk) {
    return cann::AclStatus(cleared, "clearing the word of barriers", cann_.aclGetRecentErrMsg());
  }
  return Barrier(timeout);
}

absl::Status HcclGroup::CheckHccl(int code, absl::string_view what) {
  if (code == cann::kHcclOk) return absl::OkStatus();
  // Here and now: the text belongs to the thread, and the next call clears it.
  return cann::HcclStatus(code, what, cann_.aclGetRecentErrMsg());
}

absl::Status HcclGroup::CheckBegun(int code, absl::string_view what) {
  if (code == cann::kHcclOk) return absl::OkStatus();
  return Break(CheckHccl(code, what));
}

absl::Status HcclGroup::Break(absl::Status why) {
  if (broken_.ok()) broken_ = why;
  stuck_ = cann_.aclrtStreamAbort == nullptr || cann_.aclrtStreamAbort(stream_) != cann::kAclOk;
  return why;
}

absl::Status HcclGroup::AllReduce(uint64_t from, uint64_t to, uint64_t count, cann::HcclType type,
                                  cann::HcclReduction op) {
  PTO_RETURN_IF_ERROR(broken_);
  return CheckBegun(
      cann_.HcclAllReduce(Pointer(from), Pointer(to), count, type, op, comm_, stream_),
      "an all-reduce");
}

absl::Status HcclGroup::Broadcast(uint64_t data, uint64_t count, cann::HcclType type,
                                  uint32_t root) {
  PTO_RETURN_IF_ERROR(broken_);
  return CheckBegun(cann_.HcclBroadcast(Pointer(data), count, type, root, comm_, stream_),
                    "a broadcast");
}

absl::Status HcclGroup::AllGather(uint64_t from, uint64_t to, uint64_t count, cann::HcclType type) {
  PTO_RETURN_IF_ERROR(broken_);
  return CheckBegun(cann_.HcclAllGather(Pointer(from), Pointer(to), count, type, comm_, stream_),
                    "an all-gather");
}

absl::Status HcclGroup::ReduceScatter(uint64_t from, uint64_t to, uint64_t count,
                                      cann::HcclType type, cann::HcclReduction op) {
  PTO_RETURN_IF_ERROR(broken_);
  return CheckBegun(
      cann_.HcclReduceScatter(Pointer(from), Pointer(to), count, type, op, comm_, stream_),
      "a reduce-scatter");
}

absl::Status HcclGroup::AllToAll(uint64_t from, absl::Span<const uint64_t> from_counts,
                                 absl::Span<const uint64_t> from_places, uint64_t to,
                                 absl::Span<const uint64_t> to_counts,
                                 absl::Span<const uint64_t> to_places, cann::HcclType type) {
  PTO_RETURN_IF_ERROR(broken_);
  for (const auto& numbers : {from_counts, from_places, to_counts, to_places}) {
    if (numbers.size() != size_) {
      return Error(reason::kFieldInvalid, absl::StrCat("an all-to-all of ", size_, " ranks with ",
                                                       numbers.size(), " numbers"));
    }
  }
  return CheckBegun(
      cann_.HcclAlltoAllV(Pointer(from), from_counts.data(), from_places.data(), type, Pointer(to),
                          to_counts.data(), to_places.data(), type, comm_, stream_),
      "an all-to-all");
}

absl::Status HcclGroup::Await(absl::Duration timeout) {
  PTO_RETURN_IF_ERROR(broken_);
  const cann::AclError code =
      cann_.aclrtSynchronizeStreamWithTimeout(stream_, Milliseconds(timeout));
  if (code == cann::kAclOk) return absl::OkStatus();
  return Break(
      cann::AclStatus(code, absl::StrCat("communicator '", name_, "', rank ", rank_, " of ", size_),
                      cann_.aclGetRecentErrMsg()));
}

absl::Status HcclGroup::Barrier(absl::Duration timeout) {
  const auto word = reinterpret_cast<uint64_t>(word_);
  PTO_RETURN_IF_ERROR(AllReduce(word, word + 4, 1, cann::kHcclI32, cann::kHcclSum));
  return Await(timeout);
}

absl::Status HcclGroup::Health() {
  PTO_RETURN_IF_ERROR(broken_);
  int error = 0;
  PTO_RETURN_IF_ERROR(CheckHccl(cann_.HcclGetCommAsyncError(comm_, &error), "asking for errors"));
  return CheckHccl(error, absl::StrCat("communicator '", name_, "'"));
}

absl::Status HcclGroup::Leave() {
  if (comm_ != nullptr && broken_.ok()) {
    // Nothing must use what is freed below.
    const cann::AclError code =
        cann_.aclrtSynchronizeStreamWithTimeout(stream_, Milliseconds(kLeaveTime));
    if (code != cann::kAclOk) {
      (void)Break(cann::AclStatus(code, absl::StrCat("leaving communicator '", name_, "'"),
                                  cann_.aclGetRecentErrMsg()));
    }
  }
  absl::Status result;
  if (comm_ != nullptr) {
    int code = cann_.HcclCommDestroy(comm_);
    for (int i = 0; i < kLeaveTries && code == cann::kHcclAgain; ++i) {
      // What uses it ends soon: its stream was awaited, or aborted.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      code = cann_.HcclCommDestroy(comm_);
    }
    comm_ = nullptr;
    result = CheckHccl(code, "leaving a communicator");
  }
  if (word_ != nullptr && !stuck_) (void)cann_.aclrtFree(word_);
  word_ = nullptr;
  if (broken_.ok()) broken_ = Error(reason::kDeviceFailed, "the communicator was left");
  return result;
}

}  // namespace pto::comm
