#include "runtime/host/object/pto_call.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/domain_scalar.h"
#include "kernels/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/host/object/inspect.h"
#include "runtime/host/object/look_counter.h"
#include "runtime/host/object/pto_hooks.h"

namespace pto::host {
namespace {

const PtoCallInfo kNoInfo;
thread_local const PtoCallInfo* current_call = &kNoInfo;

// Everything that a call lays out for its kernel. Its members point to each other.
struct Frame {
  int64_t words[kPtoWords];
  PtoTensor tensors[kPtoMaxTensors];
  PtoLocalContext local;
  PtoGlobalContext global;
  uint32_t condition_count;
  int32_t error_code;
  PtoConditionEntry conditions[kPtoMaxConditions];
  std::vector<PtoCommContext> domains;  // of scalars `domain(n)`
};

int64_t Word(const void* address) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(address));
}

uint64_t Address(const void* address) { return reinterpret_cast<uintptr_t>(address); }

absl::Status Invalid(absl::string_view name, absl::string_view what) {
  return Error(reason::kFieldInvalid, what).At(name);
}

// 1 + Σ (shape − 1) · stride, or 0 without elements. false: more than memory can have.
bool Extent(const pto_tensor& view, uint64_t* extent) {
  *extent = 1;
  for (uint32_t d = 0; d < view.ndim; ++d) {
    if (view.shape[d] <= 0) {
      *extent = 0;
      return view.shape[d] == 0;
    }
  }
  for (uint32_t d = 0; d < view.ndim; ++d) {
    uint64_t reach = 0;
    if (view.strides[d] < 1 ||
        __builtin_mul_overflow(static_cast<uint64_t>(view.shape[d] - 1),
                               static_cast<uint64_t>(view.strides[d]), &reach) ||
        __builtin_add_overflow(*extent, reach, extent)) {
      return false;
    }
  }
  return *extent <= std::numeric_limits<int64_t>::max() / 8;
}

// Whether the elements lie one after the other, in row-major order. There is at least one, and
// their extent is small enough.
bool IsContiguous(const pto_tensor& view) {
  int64_t stride = 1;
  for (uint32_t d = view.ndim; d-- > 0;) {
    if (view.shape[d] != 1 && view.strides[d] != stride) return false;
    stride *= view.shape[d];
  }
  return true;
}

// The type that the parameter has for tensors of this type; kPtoTypes: it accepts none of them.
uint32_t TypeFor(uint32_t dtype, uint32_t types) {
  for (uint32_t type = 0; type < kPtoTypes; ++type) {
    if ((types & (1u << type)) != 0 && TaskDtype(static_cast<PtoType>(type)) == dtype) return type;
  }
  return kPtoTypes;
}

// The tensors of a member.
const pto_tensor* TensorsOf(const pto_context& context, uint32_t member) {
  return context.members == nullptr ? context.tensors : context.members[member];
}
uint32_t MemberCount(const pto_context& context) {
  return context.members == nullptr ? 1 : context.member_count;
}

// Lays out the arguments of one call.
class FrameWriter {
 public:
  FrameWriter(const PtoSignature& signature, const pto_context& context, const PtoCallInfo& call,
              Frame& frame)
      : signature_(signature), context_(context), call_(call), frame_(frame) {}

  absl::Status Write(bool deferral) {
    if (context_.tensor_count != signature_.tensors.size()) {
      return Invalid("tensors", absl::StrCat("the kernel takes ", signature_.tensors.size(),
                                             " tensors, not ", context_.tensor_count));
    }
    if (!call_.buffers.empty() && call_.buffers.size() != signature_.tensors.size()) {
      return Invalid("buffers", absl::StrCat("expected one for each of ", signature_.tensors.size(),
                                             " tensors"));
    }
    // Words without a meaning are 0.
    std::memset(frame_.words, 0, sizeof frame_.words);
    uint32_t word = 0;
    for (uint32_t i = 0; i < context_.tensor_count; ++i) {
      const PtoTensorParameter& parameter = signature_.tensors[i];
      if (parameter.hidden) continue;
      PtoTensor& tensor = frame_.tensors[word];
      PTO_RETURN_IF_ERROR(FillPtoTensor(context_.tensors[i], parameter,
                                        call_.buffers.empty() ? nullptr : &call_.buffers[i],
                                        &tensor));
      frame_.words[word++] = Word(&tensor);
    }
    PTO_RETURN_IF_ERROR(WriteScalars(word));
    WriteContexts(deferral);
    return absl::OkStatus();
  }

 private:
  absl::Status WriteScalars(uint32_t word) {
    // The contexts must not move.
    frame_.domains.reserve(signature_.scalars.size());
    uint32_t given = 0;
    for (const PtoScalarParameter& parameter : signature_.scalars) {
      pto_scalar scalar = {};
      if (parameter.given()) {
        if (given == context_.scalar_count) {
          return Invalid(parameter.name, "the task gives no value for it");
        }
        scalar = context_.scalars[given++];
      }
      PTO_RETURN_IF_ERROR(WriteScalar(parameter, scalar, &frame_.words[word++]));
    }
    if (given == context_.scalar_count) return absl::OkStatus();
    return Invalid("scalars", absl::StrCat("the kernel takes ", given, " values, not ",
                                           context_.scalar_count));
  }

  absl::Status WriteScalar(const PtoScalarParameter& parameter, pto_scalar scalar, int64_t* word) {
    using Kind = PtoScalarParameter::Kind;
    const auto integer = [&](int64_t least, int64_t most) -> absl::Status {
      *word = scalar.i64;
      if (scalar.i64 >= least && scalar.i64 <= most) return absl::OkStatus();
      return Invalid(parameter.name, absl::StrCat(scalar.i64, " is not in ", least, " … ", most));
    };
    switch (parameter.kind) {
      case Kind::kF32: {
        const double value = scalar.f64;
        if (std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max()) {
          return Invalid(parameter.name, absl::StrCat(value, " is too large for an f32"));
        }
        *word = std::bit_cast<uint32_t>(static_cast<float>(value));
        return absl::OkStatus();
      }
      case Kind::kF64:
        *word = std::bit_cast<int64_t>(scalar.f64);
        return absl::OkStatus();
      case Kind::kI32:
        return integer(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
      case Kind::kU32:
        return integer(0, std::numeric_limits<uint32_t>::max());
      case Kind::kI64:
      case Kind::kU64:  // a value from 2^63 on is given as the negative one of the same bits
        *word = scalar.i64;
        return absl::OkStatus();
      case Kind::kDomain:
        return parameter.tensor.has_value() ? WriteDomain(parameter, word)
                                            : WriteGivenDomain(parameter, scalar, word);
      case Kind::kAddress: {
        const void* const data = context_.tensors[*parameter.tensor].data;
        if (data == nullptr) return Invalid(parameter.name, "its tensor has no elements");
        *word = Word(data);
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  absl::Status WriteGivenDomain(const PtoScalarParameter& parameter, pto_scalar scalar,
                                int64_t* word) {
    if (scalar.i64 < 0 || scalar.i64 >= static_cast<int64_t>(call_.domains.size())) {
      return Invalid(parameter.name, absl::StrCat("the task has no domain ", scalar.i64));
    }
    *word = Word(&call_.domains[static_cast<size_t>(scalar.i64)]);
    return absl::OkStatus();
  }

  // A domain whose windows are a tensor of each member.
  absl::Status WriteDomain(const PtoScalarParameter& parameter, int64_t* word) {
    const uint32_t tensor = *parameter.tensor;
    const pto_tensor& own = context_.tensors[tensor];
    uint64_t extent = 0;
    if (!Extent(own, &extent)) return Invalid(parameter.name, "its window is not a valid view");
    std::vector<uint64_t> windows;
    uint64_t bytes = 0;
    if (!FindWindows(tensor, &windows, &bytes)) {
      windows.clear();
      for (uint32_t member = 0; member < MemberCount(context_); ++member) {
        windows.push_back(Address(TensorsOf(context_, member)[tensor].data));
      }
      bytes = extent * kernels::DtypeSize(own.dtype);
    }
    PTO_ASSIGN_OR_RETURN(const PtoCommContext domain,
                         MakePtoCommContext(context_.member_index, windows, bytes));
    frame_.domains.push_back(domain);
    *word = Word(&frame_.domains.back());
    return absl::OkStatus();
  }

  // The windows that the tensor of all members lies in. Returns false if one lies in none.
  bool FindWindows(uint32_t tensor, std::vector<uint64_t>* windows, uint64_t* bytes) const {
    const size_t members = MemberCount(context_);
    if (call_.windows.size() != members * context_.tensor_count) return false;
    *bytes = std::numeric_limits<uint64_t>::max();
    for (size_t member = 0; member < members; ++member) {
      const PtoBuffer& window = call_.windows[member * context_.tensor_count + tensor];
      if (window.address == nullptr) return false;
      windows->push_back(Address(window.address));
      *bytes = std::min(*bytes, window.bytes);
    }
    return true;
  }

  void WriteContexts(bool deferral) {
    static std::atomic<uint64_t> tokens{0};
    frame_.condition_count = 0;
    frame_.error_code = 0;
    frame_.local = {};
    frame_.local.block_index = context_.block_index;
    frame_.local.block_count = context_.block_count;
    frame_.local.condition_count = Address(&frame_.condition_count);
    frame_.local.error_code = Address(&frame_.error_code);
    frame_.local.conditions = Address(frame_.conditions);
    frame_.local.capacity = kPtoMaxConditions;
    frame_.local.task_token =
        deferral ? tokens.fetch_add(1, std::memory_order_relaxed) : kPtoNoDeferral;
    frame_.global = {};
    frame_.global.sub_block = static_cast<int32_t>(pto_sim_get_subblock_id());
    frame_.words[kPtoLocalWord] = Word(&frame_.local);
    frame_.words[kPtoGlobalWord] = Word(&frame_.global);
  }

  const PtoSignature& signature_;
  const pto_context& context_;
  const PtoCallInfo& call_;
  Frame& frame_;
};

// Reads what a kernel has left behind. All of it is untrusted.
class FrameReader {
 public:
  FrameReader(const pto_context& context, const PtoCallInfo& call, const Frame& frame)
      : context_(context), call_(call), frame_(frame) {}

  PtoOutcome Read(bool deferral) {
    PtoOutcome outcome;
    if (frame_.error_code != 0) return Failed(frame_.error_code, Meaning(frame_.error_code));
    if (frame_.condition_count == 0) return outcome;
    if (!deferral) {
      return Failed(kPtoErrorInvalid, "the kernel registers conditions, but nobody waits for them");
    }
    if (frame_.condition_count > kPtoMaxConditions) {
      return Failed(kPtoErrorTooManyConditions, Meaning(kPtoErrorTooManyConditions));
    }
    for (uint32_t i = 0; i < frame_.condition_count; ++i) {
      const PtoConditionEntry& entry = frame_.conditions[i];
      PtoCondition condition;
      condition.address = entry.address;
      if (entry.type == static_cast<int32_t>(PtoConditionType::kCounter)) {
        condition.least = entry.expected;
      } else if (entry.type == static_cast<int32_t>(PtoConditionType::kEventRecord)) {
        condition.wide = true;
        condition.least = entry.cookie;
      } else {
        return Failed(kPtoErrorInvalid, absl::StrCat("condition ", i, " has type ", entry.type,
                                                     ", which a simulated chip does not have"));
      }
      const uint64_t size = condition.wide ? 8 : 4;
      if (condition.address % size != 0 || !IsInTask(condition.address, size)) {
        return Failed(
            kPtoErrorInvalid,
            absl::StrCat("condition ", i, " is for address 0x", absl::Hex(condition.address),
                         ", which is not an aligned word of the task's memory"));
      }
      if (!condition.Satisfied()) outcome.conditions.push_back(condition);
    }
    return outcome;
  }

 private:
  static PtoOutcome Failed(int32_t code, absl::string_view what) {
    PtoOutcome outcome;
    outcome.code = code;
    outcome.error = absl::StrCat(what, " (code ", code, ")");
    return outcome;
  }

  static std::string Meaning(int32_t code) {
    if (code == kPtoErrorInvalid) return "the kernel registered an invalid condition";
    if (code == kPtoErrorTooManyConditions) {
      return absl::StrCat("the kernel registered more than ", kPtoMaxConditions, " conditions");
    }
    return "the kernel reported an error";
  }

  static bool Contains(uint64_t start, uint64_t bytes, uint64_t address, uint64_t size) {
    return address >= start && address - start <= bytes && size <= bytes - (address - start);
  }

  // Whether the word is in memory that stays there as long as the task.
  bool IsInTask(uint64_t address, uint64_t size) const {
    for (const PtoBuffer& buffer : call_.buffers) {
      if (Contains(Address(buffer.address), buffer.bytes, address, size)) return true;
    }
    for (uint32_t member = 0; member < MemberCount(context_); ++member) {
      for (uint32_t i = 0; i < context_.tensor_count; ++i) {
        const pto_tensor& view = TensorsOf(context_, member)[i];
        uint64_t extent = 0;
        if (!Extent(view, &extent)) continue;
        const uint64_t bytes = extent * kernels::DtypeSize(view.dtype);
        if (Contains(Address(view.data), bytes, address, size)) return true;
      }
    }
    for (const PtoBuffer& window : call_.windows) {
      if (window.address != nullptr &&
          Contains(Address(window.address), window.bytes, address, size))
        return true;
    }
    for (const PtoCommContext& domain : call_.domains) {
      for (uint32_t rank = 0; rank < domain.rank_count && rank < kPtoMaxRanks; ++rank) {
        if (Contains(domain.windows_in[rank], domain.window_bytes, address, size)) return true;
      }
    }
    return false;
  }

  const pto_context& context_;
  const PtoCallInfo& call_;
  const Frame& frame_;
};

PtoOutcome NotCalled(absl::string_view what) {
  PtoOutcome outcome;
  outcome.code = PTO_INVALID;
  outcome.error = std::string(what);
  return outcome;
}

// A status as a text: the errors of kernels are texts.
std::string Text(const absl::Status& status) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  const std::string field =
      detail.has_value() && !detail->field.empty() ? absl::StrCat(detail->field, ": ") : "";
  return absl::StrCat(field, std::string(status.message()));
}

// The cluster of a block, or a number that no cluster has.
uint32_t ClusterOf(const pto_context& context, const PtoCallInfo& call) {
  constexpr uint32_t kSingleCore = 1u << 31;
  if (call.cluster != PtoCallInfo::kNoCluster) return call.cluster;
  return context.core_kind == PTO_MIX ? context.core : (kSingleCore | context.core);
}

int32_t Run(const pto_context* context) {
  const auto& kernel = *static_cast<const PtoKernel*>(context->kernel_data);
  const pto_kernel_api& api = *context->api;
  const bool deferral = api.struct_size >= offsetof(pto_kernel_api, defer) + sizeof(api.defer) &&
                        api.defer != nullptr;
  const PtoOutcome outcome = kernel.Call(*context, *current_call, deferral);
  if (outcome.code != 0) {
    api.set_error(context, outcome.error.c_str());
    return outcome.code;
  }
  for (const PtoCondition& condition : outcome.conditions) {
    const pto_signal signal = {reinterpret_cast<void*>(static_cast<uintptr_t>(condition.address)),
                               static_cast<uint32_t>(condition.wide ? PTO_U64 : PTO_U32)};
    const int32_t refused =
        api.defer(context, &signal, PTO_GE, static_cast<int64_t>(condition.least), 0);
    if (refused != PTO_OK) {
      api.set_error(context, "nobody can wait for the conditions that the kernel registered");
      return refused;
    }
  }
  return PTO_OK;
}

}  // namespace

PtoCallScope::PtoCallScope(const PtoCallInfo& info) : before_(std::exchange(current_call, &info)) {}

PtoCallScope::~PtoCallScope() { current_call = before_; }

bool PtoCondition::Satisfied() const {
  if (wide) {
    return __atomic_load_n(reinterpret_cast<const uint64_t*>(address), __ATOMIC_ACQUIRE) >= least;
  }
  return __atomic_load_n(reinterpret_cast<const uint32_t*>(address), __ATOMIC_ACQUIRE) >= least;
}

PtoKernel::PtoKernel(Setting setting) : setting_(std::move(setting)) {
  const PtoSignature& signature = setting_.signature;
  for (const PtoTensorParameter& tensor : signature.tensors) {
    uint32_t dtypes = 0;
    for (uint32_t type = 0; type < kPtoTypes; ++type) {
      if ((tensor.types & (1u << type)) == 0) continue;
      dtypes |= PTO_DTYPE_BIT(TaskDtype(static_cast<PtoType>(type)));
    }
    arguments_.push_back({tensor.name.c_str(), tensor.direction, dtypes});
  }
  for (const PtoScalarParameter& scalar : signature.scalars) {
    using Kind = PtoScalarParameter::Kind;
    if (!scalar.given()) continue;
    const bool number = scalar.kind == Kind::kF32 || scalar.kind == Kind::kF64;
    const pto_scalar_type type = scalar.kind == Kind::kDomain ? kDomainScalar
                                 : number                     ? PTO_FLOAT
                                                              : PTO_INTEGER;
    scalars_.push_back({scalar.name.c_str(), type});
  }
  info_.struct_size = sizeof info_;
  info_.name = setting_.name.c_str();
  info_.description = "A kernel of the PTO ABI.";
  info_.function = &Run;
  info_.default_core = signature.core;
  info_.arguments = arguments_.data();
  info_.argument_count = static_cast<uint32_t>(arguments_.size());
  info_.scalars = scalars_.data();
  info_.scalar_count = static_cast<uint32_t>(scalars_.size());
  info_.requires_sync_start = signature.sync_start ? 1 : 0;
  info_.flags = setting_.blocks ? PTO_KERNEL_BLOCKS : 0;
}

PtoOutcome PtoKernel::Call(const pto_context& context, const PtoCallInfo& call,
                           bool deferral) const {
  constexpr char kWaitsGiveUp[] =
      "waits of kernels can give up in this process: its environment has changed";
  // Also of a kernel whose user says that it does not block.
  const bool may_wait = setting_.blocks || setting_.waits;
  if (may_wait && !PtoWaitsAreEndless()) return NotCalled(kWaitsGiveUp);
  PtoPlace place;
  place.run = call.run;
  place.chip = context.chip;
  place.cluster = ClusterOf(context, call);
  place.sub_block = context.core_kind == PTO_MIX && context.lane == 2 ? 1 : 0;
  const PtoPlaceScope scope(place);
  Frame frame;
  const absl::Status written =
      FrameWriter(setting_.signature, context, call, frame).Write(deferral);
  if (!written.ok()) return NotCalled(Text(written));
  const uint64_t looks_before = LooksOfThread();
  try {
    setting_.entry(frame.words);
  } catch (const std::exception& error) {
    return NotCalled(absl::StrCat("the kernel threw: ", error.what()));
  } catch (...) {
    return NotCalled("the kernel threw");
  }
  if (may_wait) {
    // A wait of this call may have seen the changed variable.
    if (!PtoWaitsAreEndless()) return NotCalled(kWaitsGiveUp);
    const uint64_t looks = LooksOfThread() - looks_before;
    if (setting_.give_up_looks != 0 && looks >= setting_.give_up_looks) {
      return NotCalled(absl::StrCat(
          "the kernel looked ", looks, " times whether it may go on, so one of its waits may have ",
          "given up without an error; build it with a pto-isa that reads ", kWaitLooksVariable));
    }
  }
  return FrameReader(context, call, frame).Read(deferral);
}

absl::StatusOr<PtoCommContext> MakePtoCommContext(uint32_t rank, absl::Span<const uint64_t> windows,
                                                  uint64_t window_bytes) {
  if (windows.size() > kPtoMaxRanks || rank >= windows.size()) {
    return Invalid("domain", absl::StrCat("rank ", rank, " of ", windows.size(),
                                          ": kernels know at most ", kPtoMaxRanks, " ranks"));
  }
  PtoCommContext context = {};
  context.rank = rank;
  context.rank_count = static_cast<uint32_t>(windows.size());
  context.window_bytes = window_bytes;
  for (size_t i = 0; i < windows.size(); ++i) {
    context.windows_in[i] = context.windows_out[i] = windows[i];
  }
  return context;
}

absl::Status FillPtoTensor(const pto_tensor& view, const PtoTensorParameter& parameter,
                           const PtoBuffer* buffer, PtoTensor* tensor) {
  const auto invalid = [&](absl::string_view what) { return Invalid(parameter.name, what); };
  const uint32_t type = TypeFor(view.dtype, parameter.types);
  if (type == kPtoTypes) {
    return invalid(
        absl::StrCat("the kernel does not take elements of ", kernels::DtypeName(view.dtype)));
  }
  uint64_t extent = 0;
  if (view.ndim > PTO_MAX_DIMS || !Extent(view, &extent)) return invalid("is not a valid view");
  const uint64_t size = kernels::DtypeSize(view.dtype);
  *tensor = {};
  tensor->buffer_address = Address(buffer == nullptr ? view.data : buffer->address);
  tensor->buffer_bytes = buffer == nullptr ? extent * size : buffer->bytes;
  if (buffer != nullptr && extent > 0) {
    const uint64_t before = Address(view.data) - tensor->buffer_address;
    if (Address(view.data) < tensor->buffer_address || before > buffer->bytes ||
        extent * size > buffer->bytes - before) {
      return invalid("is not in its buffer");
    }
    if (before % size != 0) {
      return invalid(absl::StrCat("starts ", before,
                                  " bytes behind the start of its buffer, which "
                                  "is no multiple of its element size ",
                                  size));
    }
    tensor->start_offset = before / size;
  }
  tensor->owner_task = kPtoNoTask;
  // The ABI has no tensor without dimensions.
  tensor->ndim = view.ndim == 0 ? 1 : view.ndim;
  tensor->dtype = static_cast<uint8_t>(type);
  tensor->contiguous = extent == 0 || IsContiguous(view) ? 1 : 0;
  tensor->address_space = 1;
  tensor->extent = extent;
  for (uint32_t d = 0; d < PTO_MAX_DIMS; ++d) {
    const int64_t shape = d < view.ndim ? view.shape[d] : 1;
    const int64_t stride = d < view.ndim ? view.strides[d] : 1;
    constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
    if (shape > kMost || stride > kMost) {
      return invalid(absl::StrCat("dimension ", d, " is too long for the PTO ABI"));
    }
    tensor->shape[d] = static_cast<uint32_t>(shape);
    tensor->strides[d] = static_cast<uint32_t>(stride);
  }
  return absl::OkStatus();
}

}  // namespace pto::host
