#include "runtime/chip/ascend/lane/ascend_lane.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/chip/ascend/epoch_address.h"
#include "runtime/engine/lane/lane_reports.h"
#include "runtime/host/object/pto_call.h"

namespace pto::ascend {
namespace {

using engine::LanePost;
using engine::LaneResult;
using Kind = host::PtoScalarParameter::Kind;

// In place of the id of a request, of which none is 0.
constexpr uint64_t kUnsent = 0;
constexpr uint64_t kCancelled = ~uint64_t{0};

const AscendKernel& KernelOf(const LanePost& post) {
  return *static_cast<const AscendKernel*>(post.kernel->data());
}

absl::Status FormerEpoch(absl::string_view what) {
  return Error(reason::kDeviceFailed,
               absl::StrCat("the chip was reset after a fault, and ", what, " is gone"));
}

absl::StatusOr<int64_t> WordOf(const pto_scalar& scalar, Kind kind) {
  switch (kind) {
    case Kind::kF32: {
      const auto value = static_cast<float>(scalar.f64);
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      return int64_t{bits};
    }
    case Kind::kF64: {
      int64_t bits = 0;
      std::memcpy(&bits, &scalar.f64, sizeof bits);
      return bits;
    }
    case Kind::kI32:
    case Kind::kU32:
    case Kind::kI64:
    case Kind::kU64:
      return scalar.i64;
    case Kind::kDomain:
      return Error(reason::kNotAvailable, "domains are not supported on Ascend chips yet");
    case Kind::kAddress:
      break;
  }
  return Error(reason::kInternal, "an address is not a given scalar");
}

// The tensor with its address on the chip.
absl::StatusOr<pto_tensor> ViewOf(const pto_tensor& tensor, uint64_t epoch) {
  pto_tensor view = tensor;
  if (tensor.data == nullptr) return view;  // it has no elements
  const auto address = reinterpret_cast<uint64_t>(tensor.data);
  if (!IsOfEpoch(address, epoch)) return FormerEpoch("memory of the task");
  view.data = reinterpret_cast<void*>(WithoutEpoch(address));  // NOLINT
  return view;
}

}  // namespace

void AscendLane::Open(std::shared_ptr<engine::LaneReports> reports) {
  MutexLock lock(shared_->mutex);
  shared_->reports = std::move(reports);
}

absl::Status AscendLane::Fill(const LanePost& post, uint64_t epoch, Launch* launch) const {
  const host::PtoSignature& signature = KernelOf(post).signature;
  if (post.member_count != 1) {
    return Error(reason::kNotAvailable,
                 "tasks of several chips are not supported on Ascend chips yet");
  }
  if (post.core_kind == PTO_MIX) {
    return Error(reason::kNotAvailable, "MIX kernels are not supported on Ascend chips yet");
  }
  if (post.tensor_count != signature.tensors.size()) {
    return Error(reason::kArgumentCount, absl::StrCat("the kernel takes ", signature.tensors.size(),
                                                      " tensors, not ", post.tensor_count));
  }
  Request& request = launch->request;
  request.kind = Request::kLaunch;
  request.epoch = epoch;
  request.block_count = post.block_count;
  request.first_block = post.block;
  request.blocks = post.block_end - post.block;
  std::vector<pto_tensor> tensors(post.tensor_count);
  for (uint32_t i = 0; i < post.tensor_count; ++i) {
    PTO_ASSIGN_OR_RETURN(tensors[i], ViewOf(post.members[0][i], epoch));
    if (signature.tensors[i].hidden) continue;
    host::PtoTensor tensor = {};
    PTO_RETURN_IF_ERROR(host::FillPtoTensor(tensors[i], signature.tensors[i], nullptr, &tensor));
    tensor.address_space = 1;
    request.tensors.push_back(tensor);
  }
  uint32_t given = 0;
  for (const host::PtoScalarParameter& parameter : signature.scalars) {
    if (parameter.kind == Kind::kAddress && parameter.tensor.has_value() &&
        *parameter.tensor < post.tensor_count) {
      request.scalars.push_back(
          static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensors[*parameter.tensor].data)));
      continue;
    }
    if (given >= post.scalar_count) return Error(reason::kScalarCount, "a scalar is missing");
    PTO_ASSIGN_OR_RETURN(const int64_t word, WordOf(post.scalars[given++], parameter.kind));
    request.scalars.push_back(word);
  }
  if (post.deadline_ns != 0) {
    // The engine cancels at the deadline; the device's own limit comes a little later.
    const int64_t left = post.deadline_ns - options_.clock->NowNanos();
    request.timeout_ns = std::max<int64_t>(left, 0) + absl::ToInt64Nanoseconds(options_.grace);
  }
  launch->posts.emplace_back(post.id, post.block);
  return absl::OkStatus();
}

void AscendLane::Post(absl::Span<const LanePost* const> posts) {
  const uint64_t epoch = shared_->host->epoch();
  for (size_t i = 0; i < posts.size();) {
    const LanePost& first = *posts[i];
    Launch launch;
    const absl::Status filled = Fill(first, epoch, &launch);
    size_t next = i + 1;
    // A gang: its blocks on this chip follow each other.
    if (filled.ok() && first.gang_size > 0) {
      launch.request.together = 1;
      while (next < posts.size() && posts[next]->gang_size == first.gang_size &&
             posts[next]->task == first.task && posts[next]->kernel == first.kernel &&
             posts[next]->block == launch.request.first_block + launch.request.blocks) {
        launch.request.blocks += posts[next]->block_end - posts[next]->block;
        launch.posts.emplace_back(posts[next]->id, posts[next]->block);
        ++next;
      }
    }
    i = next;
    if (!filled.ok()) {
      launch.posts = {{first.id, first.block}};
      shared_->End(launch, filled);
      continue;
    }
    {
      MutexLock lock(shared_->mutex);
      for (const auto& [post, block] : launch.posts) shared_->sent[post] = kUnsent;
    }
    shared_->Begin(KernelOf(first), std::move(launch));
  }
}

void AscendLane::Shared::Begin(const AscendKernel& kernel, Launch launch) {
  const std::string key = absl::StrCat(kernel.path, "\n", kernel.entry);
  const uint64_t of_epoch = launch.request.epoch;
  std::shared_ptr<Loaded> to_load;
  uint32_t id = 0;
  absl::Status error;
  bool waits = false;
  absl::optional<Request> unload;
  {
    MutexLock lock(mutex);
    // A reset has taken the kernels, too. Those who wait for one hear of it when its loading fails.
    if (of_epoch > epoch) {
      epoch = of_epoch;
      kernels.clear();
    }
    if (of_epoch < epoch) {
      error = FormerEpoch("memory of the task");
    } else {
      std::shared_ptr<Loaded>& loaded = kernels[key];
      if (loaded == nullptr) to_load = loaded = std::make_shared<Loaded>();
      launch.kernel = loaded;
      ++loaded->uses;
      loaded->last_use = ++last_use;
      waits = !loaded->ready;
      id = loaded->id;
      error = loaded->error;
      if (waits) loaded->waiting.push_back(std::move(launch));
      if (to_load != nullptr) unload = TakeOldest();
    }
  }
  if (unload.has_value()) host->Send(*std::move(unload), [](const Reply&) {});
  if (to_load != nullptr) return Load(kernel, of_epoch, key, to_load);
  if (waits) return;
  error.ok() ? Send(std::move(launch), id) : End(launch, error);
}

absl::optional<Request> AscendLane::Shared::TakeOldest() {
  if (kernels.size() <= options.idle_kernels) return absl::nullopt;
  auto oldest = kernels.end();
  for (auto each = kernels.begin(); each != kernels.end(); ++each) {
    if (!each->second->ready || each->second->uses > 0) continue;
    if (oldest == kernels.end() || each->second->last_use < oldest->second->last_use) oldest = each;
  }
  if (oldest == kernels.end()) return absl::nullopt;
  Request unload;
  unload.kind = Request::kUnloadKernel;
  unload.epoch = epoch;
  unload.kernel = oldest->second->id;
  kernels.erase(oldest);
  return unload;
}

void AscendLane::Shared::Load(const AscendKernel& kernel, uint64_t of_epoch, const std::string& key,
                              const std::shared_ptr<Loaded>& loaded) {
  Request request;
  request.kind = Request::kLoadKernel;
  request.epoch = of_epoch;
  request.text = absl::StrCat(kernel.path, "\n", kernel.entry);
  host->Send(std::move(request), [weak = weak_from_this(), key, loaded](const Reply& reply) {
    const std::shared_ptr<Shared> self = weak.lock();
    // Those that wait own what they wait for.
    if (self == nullptr) return loaded->waiting.clear();
    std::vector<Launch> waiting;
    {
      MutexLock lock(self->mutex);
      waiting.swap(loaded->waiting);
      loaded->ready = true;
      loaded->id = static_cast<uint32_t>(reply.value);
      loaded->error = reply.status;
      // A host that died has refused nothing: the next post tries again.
      const auto found = self->kernels.find(key);
      if (found != self->kernels.end() && found->second == loaded &&
          (ReasonOf(reply.status) == reason::kHostLost.name ||
           ReasonOf(reply.status) == reason::kDeviceFailed.name)) {
        self->kernels.erase(found);
      }
    }
    for (Launch& launch : waiting) {
      if (reply.status.ok()) {
        self->Send(std::move(launch), static_cast<uint32_t>(reply.value));
      } else {
        self->End(launch, reply.status);
      }
    }
  });
}

void AscendLane::Shared::Send(Launch launch, uint32_t kernel) {
  launch.request.kernel = kernel;
  bool cancelled = false;
  {
    MutexLock lock(mutex);
    if (killed) return;
    for (const auto& [post, block] : launch.posts) cancelled |= sent[post] == kCancelled;
  }
  if (cancelled)
    return End(launch, Error(reason::kRunCancelled, "it was cancelled before it started"));
  Request request = std::move(launch.request);
  auto posts = std::make_shared<Launch>(std::move(launch));
  const uint64_t id =
      host->Send(std::move(request), [weak = weak_from_this(), posts](const Reply& reply) {
        if (const std::shared_ptr<Shared> self = weak.lock()) self->End(*posts, reply.status);
      });
  bool late = false;
  {
    MutexLock lock(mutex);
    if (id == 0 || posts->ended) return;
    for (const auto& [post, block] : posts->posts) {
      late |= std::exchange(sent[post], id) == kCancelled;
    }
  }
  // Cancelled just now: whoever did that knew no request.
  if (late) Cancel(id);
}

void AscendLane::Shared::Cancel(uint64_t request) {
  Request cancel;
  cancel.kind = Request::kCancel;
  cancel.epoch = host->epoch();
  cancel.target = request;
  const uint64_t id =
      host->Send(std::move(cancel), [weak = weak_from_this(), request](const Reply& reply) {
        if (reply.status.ok()) return;
        // The only other way to end a kernel is to end its process.
        const std::shared_ptr<Shared> self = weak.lock();
        if (self != nullptr) self->host->Insist(request, self->options.grace);
      });
  host->Insist(id, options.grace);
}

void AscendLane::Shared::End(Launch& launch, const absl::Status& status) {
  std::shared_ptr<engine::LaneReports> to;
  std::vector<LaneResult> results;
  {
    MutexLock lock(mutex);
    launch.ended = true;
    if (launch.kernel != nullptr) --std::exchange(launch.kernel, nullptr)->uses;
    if (killed) return;
    to = reports;
    for (const auto& [post, block] : launch.posts) {
      sent.erase(post);
      results.push_back({post, status, block});
    }
  }
  if (to != nullptr) to->Complete(absl::MakeSpan(results));
}

void AscendLane::Cancel(absl::Span<const engine::PostId> ids) {
  std::set<uint64_t> requests;  // one of a gang is that of all
  {
    MutexLock lock(shared_->mutex);
    for (const engine::PostId id : ids) {
      const auto found = shared_->sent.find(id);
      if (found == shared_->sent.end()) continue;
      if (found->second == kUnsent) {
        found->second = kCancelled;
      } else if (found->second != kCancelled) {
        requests.insert(found->second);
      }
    }
  }
  for (const uint64_t request : requests) shared_->Cancel(request);
}

void AscendLane::Kill() {
  bool in_use = false;
  {
    MutexLock lock(shared_->mutex);
    shared_->killed = true;
    in_use = !shared_->sent.empty();
  }
  // Without posts there is nothing to end, and others use the chip.
  if (in_use) shared_->host->KillProcess("its lane was given up");
}

}  // namespace pto::ascend
