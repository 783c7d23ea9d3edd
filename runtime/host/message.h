#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/host/sandbox_report.h"

// What the daemon and a host say to each other. Fixed layouts, for two programs of the same build
// on the same machine. Whoever parses a message owns its bytes, so nobody else can change them.
namespace pto::host {

// ---- through the ring to the host

// A view of a region, instead of an address.
struct TensorMessage {
  static constexpr uint32_t kNoRegion = 0xffffffff;  // `data` is null
  uint32_t region = kNoRegion;
  uint32_t dtype = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;  // from the first byte of the view to the last
  uint32_t ndim = 0;
  uint32_t reserved = 0;
  int64_t shape[PTO_MAX_DIMS] = {};
  int64_t strides[PTO_MAX_DIMS] = {};
};

// Followed by the scalars, and by the tensors of each member.
struct PostMessage {
  uint64_t id = 0;
  uint64_t run = 0;
  // The host must have done so many orders before.
  uint64_t orders = 0;
  uint32_t slot = 0;
  uint32_t kernel = 0;
  uint32_t task = 0;
  uint32_t block = 0;
  uint32_t block_end = 0;
  uint32_t block_count = 0;
  uint32_t chip = 0;
  uint32_t core = 0;
  uint32_t core_kind = 0;
  uint32_t cluster = 0;
  uint32_t cluster_lane = 0;
  uint32_t member = 0;
  uint32_t member_count = 0;
  uint32_t tensor_count = 0;
  uint32_t scalar_count = 0;
  uint32_t reserved = 0;
};

// A post, as the host reads it. Points into the bytes that were parsed.
struct PostView {
  PostMessage head;
  std::vector<pto_scalar> scalars;
  std::vector<TensorMessage> tensors;  // member by member
};

// Appends a post to `bytes`.
void EncodePost(const PostMessage& head, const pto_scalar* scalars,
                absl::Span<const TensorMessage> tensors, std::vector<std::byte>* bytes);
absl::Status ParsePost(absl::Span<const std::byte> bytes, PostView* post);

// ---- through the ring to the daemon

// The texts of kernels are cut to this.
inline constexpr size_t kMaxText = 1024;

// A call of the kernel API; see engine::LaneCall.
struct CallMessage {
  enum Kind : uint32_t {
    kWait = 0,
    kNotify = 1,
    kBarrier = 2,
    kCopy = 3,
    kWaitCopy = 4,
    kDefer = 5,
    kDeferCopy = 6,
  };

  uint32_t kind = kWait;
  uint32_t number = 0;  // of the answer: see PostWord
  uint32_t how = 0;
  uint32_t signal_region = TensorMessage::kNoRegion;  // kNoRegion: no signal
  uint64_t signal_offset = 0;
  uint32_t signal_dtype = 0;
  uint32_t reserved = 0;
  int64_t value = 0;
  int64_t timeout_ns = 0;
  uint64_t event = 0;
};

struct Report {
  enum Kind : uint32_t { kEnded = 1, kLog = 2, kCall = 3 };
  Kind kind = kEnded;
  uint32_t slot = 0;
  uint64_t id = 0;
  // kEnded: what the kernel returned, and the block. kLog: the level.
  int32_t result = 0;
  uint32_t block = 0;
  uint32_t took_ticks = 0;  // kEnded: for how long the kernel has run
  std::string text;         // not of a kCall
  absl::optional<CallMessage> call;
  std::vector<TensorMessage> tensors;  // of a copy: to, from
};

void EncodeReport(const Report& report, std::vector<std::byte>* bytes);
// HOST_LOST if it is malformed.
absl::StatusOr<Report> ParseReport(absl::Span<const std::byte> bytes);

// ---- through the lifeline

// What a sandbox limits; 0: no limit.
struct SandboxLimits {
  uint64_t data_bytes = 0;     // private memory: heap and stacks
  uint64_t address_bytes = 0;  // all mappings, also those of regions
  uint64_t file_bytes = 0;     // the size of a file that it writes
  uint64_t files = 0;
  uint64_t processes = 0;  // of the user, including threads
  uint32_t system_calls = 1;
  uint32_t file_system = 1;
};

// How the code of a kernel is called.
enum class HostAbi : uint32_t { kOwn = 1, kPto = 2 };

// From the daemon to the host. Followed by the signature, or by the ranks.
struct OrderMessage {
  enum Kind : uint32_t {
    kStart = 1,
    kLoad = 2,
    kUnload = 3,
    kMap = 4,
    kUnmap = 5,
    kDomain = 6,
    kForgetDomain = 7,
    kEndRun = 8,
  };
  static constexpr size_t kMaxName = 255;
  static constexpr size_t kMaxSignature = 8192;

  Kind kind = kStart;
  uint32_t id = 0;  // of the kernel or region
  uint64_t number = 0;
  uint64_t bytes = 0;    // kMap
  uint64_t subject = 0;  // the domain or run
  uint32_t runners = 0;  // kStart: threads for kernels that do not block
  // What follows: bytes of the signature, and ranks of the domain.
  uint32_t signature_bytes = 0;
  uint32_t rank_count = 0;
  HostAbi abi = HostAbi::kOwn;  // kLoad
  SandboxLimits sandbox;        // kStart
  // kLoad: the symbol of the kernel, empty for the usual one, and the name of the file. For the PTO
  // ABI also the name of the kernel.
  char entry[kMaxName + 1] = {};
  char file_name[kMaxName + 1] = {};
  char name[64] = {};
  // kLoad and kMap bring a descriptor.
};

// The window of a rank of a domain.
struct DomainRank {
  static constexpr size_t kMaxRanks = 64;

  uint32_t chip = 0;
  uint32_t region = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// An order with what follows it.
struct Order {
  static constexpr size_t kMaxBytes = sizeof(OrderMessage) + OrderMessage::kMaxSignature +
                                      DomainRank::kMaxRanks * sizeof(DomainRank);

  OrderMessage head;
  std::string signature;          // kLoad, for the PTO ABI
  std::vector<DomainRank> ranks;  // kDomain
};

// A kernel that describes itself, in a message of fixed size.
struct KernelDescription {
  struct Argument {
    char name[64];
    uint32_t direction;
    uint32_t dtypes;
    uint32_t same;
    uint32_t any;
  };
  struct Scalar {
    char name[64];
    uint32_t type;
  };

  char name[64] = {};
  char description[512] = {};
  uint32_t default_core = 0;
  uint32_t requires_sync_start = 0;
  uint32_t flags = 0;
  uint32_t has_plan = 0;
  HostAbi abi = HostAbi::kOwn;
  uint32_t argument_count = 0;
  uint32_t scalar_count = 0;
  Argument arguments[PTO_MAX_ARGS] = {};
  Scalar scalars[PTO_MAX_SCALARS] = {};
};

// From the host to the daemon.
struct AnswerMessage {
  enum Kind : uint32_t { kReady = 1, kLoaded = 2, kRefused = 3 };

  Kind kind = kReady;
  uint32_t id = 0;                // of the kernel or region
  char text[512] = {};            // kRefused: why
  SandboxReport sandbox;          // kReady
  KernelDescription description;  // kLoaded
};

// Appends an order, whose lengths it sets.
void EncodeOrder(const Order& order, std::vector<std::byte>* bytes);
// HOST_LOST if it is malformed. All texts of the result end with a zero.
absl::StatusOr<Order> ParseOrder(absl::Span<const std::byte> bytes);
absl::StatusOr<AnswerMessage> ParseAnswer(absl::Span<const std::byte> bytes);

// Copies a text into a field of fixed size, and cuts it if it is too long.
void SetText(absl::Span<char> field, absl::string_view text);
// A text of the other side without control characters, for messages and logs.
std::string Printable(absl::string_view text);

// FIELD_INVALID if the kernel is malformed, or does not fit.
absl::StatusOr<KernelDescription> Describe(const pto_kernel_info& info);

}  // namespace pto::host
