#include "runtime/chip/ascend/lane/ascend_lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
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
// For a post that was cancelled while it was being sent.
constexpr absl::Duration kLateGrace = absl::Seconds(1);

const AscendKernel& KernelOf(const LanePost& post) {
  return *static_cast<const AscendKernel*>(post.kernel->data());
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

}  // namespace

void AscendLane::Open(std::shared_ptr<engine::LaneReports> reports) {
  MutexLock lock(shared_->mutex);
  shared_->reports = std::move(reports);
}

absl::Status AscendLane::Fill(const LanePost& post, Launch* launch) const {
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
  request.block_count = post.block_count;
  request.first_block = post.block;
  request.blocks = post.block_end - post.block;
  const pto_tensor* const tensors = post.tensor_count == 0 ? nullptr : post.members[0];
  for (uint32_t i = 0; i < post.tensor_count; ++i) {
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
  for (size_t i = 0; i < posts.size();) {
    const LanePost& first = *posts[i];
    Launch launch;
    const absl::Status filled = Fill(first, &launch);
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
      launch.request.stream = shared_->next_stream++;
      for (const auto& [post, block] : launch.posts) shared_->sent[post] = kUnsent;
    }
    shared_->Begin(KernelOf(first), std::move(launch));
  }
}

void AscendLane::Shared::Begin(const AscendKernel& kernel, Launch launch) {
  const std::string key = absl::StrCat(kernel.path, "\n", kernel.entry);
  const uint64_t now = host->epoch();
  std::vector<Launch> dropped;
  bool load = false;
  uint32_t id = 0;
  absl::Status error;
  {
    MutexLock lock(mutex);
    // A reset has taken the kernels, too.
    if (epoch != now) {
      epoch = now;
      for (auto& [name, loaded] : kernels) {
        for (Launch& each : loaded.waiting) dropped.push_back(std::move(each));
      }
      kernels.clear();
    }
    const auto [place, added] = kernels.try_emplace(key);
    Loaded& loaded = place->second;
    load = added;
    if (!loaded.ready) {
      loaded.waiting.push_back(std::move(launch));
    } else {
      id = loaded.id;
      error = loaded.error;
    }
  }
  for (Launch& each : dropped) {
    End(each, Error(reason::kDeviceFailed, "the chip was reset while the kernel was being loaded"));
  }
  if (load) return Load(kernel, key);
  if (!launch.posts.empty()) error.ok() ? Send(std::move(launch), id) : End(launch, error);
}

void AscendLane::Shared::Load(const AscendKernel& kernel, const std::string& key) {
  Request request;
  request.kind = Request::kLoadKernel;
  request.text = absl::StrCat(kernel.path, "\n", kernel.entry);
  host->Send(std::move(request), [self = shared_from_this(), key](const Reply& reply) {
    std::vector<Launch> waiting;
    {
      MutexLock lock(self->mutex);
      const auto found = self->kernels.find(key);
      if (found == self->kernels.end()) return;
      Loaded& loaded = found->second;
      waiting.swap(loaded.waiting);
      loaded.ready = true;
      loaded.id = static_cast<uint32_t>(reply.value);
      loaded.error = reply.status;
      // A host that died has refused nothing: the next post tries again.
      if (ReasonOf(reply.status) == reason::kHostLost.name ||
          ReasonOf(reply.status) == reason::kDeviceFailed.name) {
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
    for (const auto& [post, block] : launch.posts) cancelled |= sent[post] == kCancelled;
  }
  if (cancelled)
    return End(launch, Error(reason::kRunCancelled, "it was cancelled before it started"));
  Request request = std::move(launch.request);
  auto posts = std::make_shared<Launch>(std::move(launch));
  const uint64_t id = host->Send(
      std::move(request),
      [self = shared_from_this(), posts](const Reply& reply) { self->End(*posts, reply.status); });
  MutexLock lock(mutex);
  if (id == 0 || posts->ended) return;
  for (const auto& [post, block] : posts->posts) {
    // Cancelled just now: whoever did that knew no request.
    if (std::exchange(sent[post], id) == kCancelled) host->Insist(id, kLateGrace);
  }
}

void AscendLane::Shared::End(Launch& launch, const absl::Status& status) {
  std::shared_ptr<engine::LaneReports> to;
  std::vector<LaneResult> results;
  {
    MutexLock lock(mutex);
    launch.ended = true;
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
  std::vector<uint64_t> requests;
  {
    MutexLock lock(shared_->mutex);
    for (const engine::PostId id : ids) {
      const auto found = shared_->sent.find(id);
      if (found == shared_->sent.end()) continue;
      if (found->second == kUnsent) {
        found->second = kCancelled;
      } else if (found->second != kCancelled) {
        requests.push_back(found->second);
      }
    }
  }
  for (const uint64_t request : requests) shared_->host->Insist(request, options_.grace);
}

void AscendLane::Kill() {
  {
    MutexLock lock(shared_->mutex);
    shared_->killed = true;
  }
  shared_->host->KillProcess("its lane was given up");
}

}  // namespace pto::ascend
