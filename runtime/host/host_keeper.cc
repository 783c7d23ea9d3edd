#include "runtime/host/host_keeper.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/kernel.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/host/futex.h"
#include "runtime/host/lifeline.h"

namespace pto::host {
namespace {

using engine::LanePost;
using engine::LaneResult;
using engine::PostId;

// A killed process ends within this time, unless the machine hangs.
constexpr absl::Duration kKillTime = absl::Seconds(10);
// Orders that a host may have left, beyond those for what there is.
constexpr size_t kMostUnsent = 4096;

int64_t Now() { return Clock::Real().NowNanos(); }

absl::Status Lost(absl::string_view why) { return Error(reason::kHostLost, why); }

}  // namespace

HostKeeper::HostKeeper(HostOptions options)
    : options_(std::move(options)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      output_(options_.name) {}

HostKeeper::~HostKeeper() = default;

void HostKeeper::Wake() const {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

void HostKeeper::Complete(std::vector<LaneResult>* results) {
  if (results->empty()) return;
  std::shared_ptr<engine::LaneReports> reports;
  {
    MutexLock lock(mutex_);
    reports = reports_;
  }
  if (reports != nullptr) reports->Complete(absl::MakeSpan(*results));
  results->clear();
}

// ---- for the owner

absl::StatusOr<std::shared_ptr<const HostedKernel>> HostKeeper::Load(FileDescriptor object,
                                                                     const std::string& entry,
                                                                     const std::string& file_name,
                                                                     absl::Duration timeout) {
  HostedObject own;
  own.object = std::move(object);
  own.entry = entry;
  own.file_name = file_name;
  return Load(std::move(own), timeout);
}

absl::StatusOr<std::shared_ptr<const HostedKernel>> HostKeeper::Load(HostedObject object,
                                                                     absl::Duration timeout) {
  const std::string file_name = object.file_name;
  if (object.entry.size() > OrderMessage::kMaxName || file_name.size() > OrderMessage::kMaxName ||
      object.name.size() >= sizeof(OrderMessage::name)) {
    return Error(reason::kFieldInvalid, "a name is too long").At("entry");
  }
  if (object.signature.size() > OrderMessage::kMaxSignature) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("it has ", object.signature.size(), " bytes, more than ",
                              OrderMessage::kMaxSignature))
        .At("signature");
  }
  const std::weak_ptr<HostKeeper> weak = weak_from_this();
  const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  MutexLock lock(mutex_);
  if (state_ == State::kEnded || stop_) return Lost("the kernel host has ended");
  const uint32_t id = ++last_id_;
  KernelEntry& added = kernels_[id];
  added.object = std::move(object);
  if (process_ != nullptr) SendLoad(id, added);
  while (true) {
    const auto found = kernels_.find(id);
    KernelEntry& kernel = found->second;
    if (kernel.known) {
      return std::make_shared<const HostedKernel>(id, kernel.description, [weak](uint32_t gone) {
        if (const std::shared_ptr<HostKeeper> keeper = weak.lock()) keeper->Unload(gone);
      });
    }
    absl::Status error = kernel.error;
    if (error.ok() && (state_ == State::kEnded || stop_)) error = Lost("the kernel host has ended");
    if (error.ok() && state_ == State::kPaused) error = Lost(last_death_);
    const auto left = until - std::chrono::steady_clock::now();
    if (error.ok() && left.count() <= 0) {
      error = Error(reason::kFieldInvalid, absl::StrCat("'", file_name, "' was not loaded within ",
                                                        absl::FormatDuration(timeout)));
      // Whoever is being loaded does not end.
      if (!loading_.empty() && loading_.front() == id) {
        give_up_.text = absl::StrCat("loading '", file_name, "' did not end within ",
                                     absl::FormatDuration(timeout));
        give_up_.kernel = id;
        Wake();
        // Until the host has ended: it must not be loaded again.
        kernel.state = KernelEntry::State::kBroken;
        kernel.error = error;
        return error;
      }
    }
    if (!error.ok()) {
      // An answer that is still to come finds nothing.
      kernels_.erase(found);
      return error;
    }
    changed_.WaitFor(mutex_, left);
  }
}

void HostKeeper::Unload(uint32_t id) {
  MutexLock lock(mutex_);
  if (kernels_.erase(id) == 0) return;
  OrderMessage order;
  order.kind = OrderMessage::kUnload;
  order.id = id;
  Send(order);
}

absl::Status HostKeeper::AddMemory(std::shared_ptr<engine::HostAllocation> memory) {
  MutexLock lock(mutex_);
  if (regions_.Has(*memory)) return absl::OkStatus();
  const uint32_t id = ++last_id_;
  PTO_RETURN_IF_ERROR(regions_.Add(id, std::move(memory)));
  if (process_ != nullptr) SendMap(*regions_.Find(id));
  return absl::OkStatus();
}

void HostKeeper::RemoveMemory(const engine::HostAllocation& memory) {
  // Released without the lock.
  std::shared_ptr<engine::HostAllocation> released;
  MutexLock lock(mutex_);
  OrderMessage order;
  order.kind = OrderMessage::kUnmap;
  order.id = regions_.Remove(memory, &released);
  if (order.id != 0) Send(order);
}

absl::Status HostKeeper::AddDomain(const HostedDomain& domain) {
  if (domain.windows.size() > DomainRank::kMaxRanks) {
    return Error(reason::kFieldInvalid, absl::StrCat("kernels know at most ", DomainRank::kMaxRanks,
                                                     " ranks, not ", domain.windows.size()))
        .At("chips");
  }
  MutexLock lock(mutex_);
  // Again if it is known: the host may not have seen all its windows then.
  domains_.insert_or_assign(domain.number, domain);
  if (process_ != nullptr) SendDomain(domain);
  return absl::OkStatus();
}

void HostKeeper::RemoveDomain(uint64_t number) {
  MutexLock lock(mutex_);
  if (domains_.erase(number) == 0) return;
  OrderMessage order;
  order.kind = OrderMessage::kForgetDomain;
  order.subject = number;
  Send(order);
}

HostStatus HostKeeper::status() const {
  MutexLock lock(mutex_);
  HostStatus status;
  status.name = options_.name;
  status.state = state_;
  status.pid = process_ == nullptr ? 0 : process_->pid();
  status.starts = starts_;
  status.deaths = deaths_;
  status.last_death = last_death_;
  status.last_restart = last_restart_;
  status.kernels = kernels_.size();
  status.regions = regions_.size();
  status.region_bytes = regions_.bytes();
  status.posts = slots_.size() - free_slots_.size();
  status.waiting = backlog_.size();
  status.sandbox = sandbox_;
  return status;
}

bool HostKeeper::AwaitReady(absl::Duration timeout) {
  const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  MutexLock lock(mutex_);
  while (state_ != State::kReady) {
    const auto left = until - std::chrono::steady_clock::now();
    if (state_ == State::kEnded || left.count() <= 0) return false;
    changed_.WaitFor(mutex_, left);
  }
  return true;
}

void HostKeeper::Stop() {
  MutexLock lock(mutex_);
  stop_ = true;
  // Whatever it reports meanwhile.
  if (process_ != nullptr) process_->Kill();
  changed_.NotifyAll();
  Wake();
}

// ---- for HostLane

void HostKeeper::Open(std::shared_ptr<engine::LaneReports> reports) {
  MutexLock lock(mutex_);
  reports_ = std::move(reports);
}

void HostKeeper::Post(absl::Span<const LanePost* const> posts) {
  std::vector<LaneResult> refused;
  {
    MutexLock lock(mutex_);
    for (const LanePost* const post : posts) {
      if (state_ == State::kEnded || stop_) {
        refused.push_back({post->id, Lost("the kernel host has ended"), post->block});
      } else if (state_ == State::kPaused) {
        refused.push_back({post->id, Lost(last_death_), post->block});
      } else if (!backlog_.empty() || !SendPost(*post, &refused)) {
        backlog_.push_back(post);
      }
    }
    PublishPosts();
  }
  Complete(&refused);
}

bool HostKeeper::SendPost(const LanePost& post, std::vector<LaneResult>* refused) {
  // Without a host, or with one that is about to end, it waits for the next.
  if (!writer_.has_value() || !give_up_.text.empty()) return false;
  const auto refuse = [&](absl::Status why) {
    refused->push_back({post.id, std::move(why), post.block});
    return true;
  };
  const auto* const hosted = static_cast<const HostedKernel*>(post.kernel->data());
  const auto kernel = hosted == nullptr ? kernels_.end() : kernels_.find(hosted->id());
  if (kernel == kernels_.end()) return refuse(Lost("the kernel is not one of the kernel host"));
  if (!kernel->second.error.ok()) return refuse(kernel->second.error);
  if (free_slots_.empty() && slots_.size() >= kMaxPosts) return false;
  if (absl::Status filled = FillTensors(post); !filled.ok()) return refuse(std::move(filled));

  PostMessage head;
  head.id = post.id;
  head.run = post.run;
  head.orders = needed_orders_;
  head.slot = free_slots_.empty() ? static_cast<uint32_t>(slots_.size()) : free_slots_.back();
  head.kernel = hosted->id();
  head.task = post.task;
  head.block = post.block;
  head.block_end = post.block_end;
  head.block_count = post.block_count;
  head.chip = post.chip;
  head.core = post.core;
  head.core_kind = post.core_kind;
  head.cluster = post.cluster;
  head.cluster_lane = post.cluster_lane;
  head.member = post.member;
  head.member_count = post.member_count;
  head.tensor_count = post.tensor_count;
  head.scalar_count = post.scalar_count;
  bytes_.clear();
  EncodePost(head, post.scalars, tensors_, &bytes_);
  if (bytes_.size() > kRingBytes / 2) return refuse(Lost("a task has too many tensors for a host"));
  const absl::StatusOr<bool> written = writer_->Write(bytes_);
  if (!written.ok()) {
    give_up_.text = std::string(written.status().message());
    writer_.reset();
    Wake();
    return false;
  }
  if (!*written) return false;
  if (free_slots_.empty()) {
    slots_.emplace_back();
  } else {
    free_slots_.pop_back();
  }
  slots_[head.slot] = Slot();
  slots_[head.slot].post = &post;
  if (hosted->has_pipes()) pipe_runs_.insert(post.run);
  return true;
}

absl::Status HostKeeper::FillTensors(const LanePost& post) {
  tensors_.resize(size_t{post.member_count} * post.tensor_count);
  size_t next = 0;
  for (const pto_tensor* const member : post.members) {
    for (uint32_t i = 0; i < post.tensor_count; ++i) {
      PTO_RETURN_IF_ERROR(regions_.Translate(member[i], &tensors_[next++]));
    }
  }
  return absl::OkStatus();
}

void HostKeeper::SendBacklog(std::vector<LaneResult>* refused) {
  while (!backlog_.empty() && SendPost(*backlog_.front(), refused)) backlog_.pop_front();
  PublishPosts();
}

void HostKeeper::PublishPosts() {
  if (!writer_.has_value()) return;
  const uint32_t sleepers = writer_->Publish();
  if (sleepers > 0) FutexWake(process_->control().to_host.word, sleepers);
}

void HostKeeper::Cancel(absl::Span<const PostId> ids) {
  std::vector<LaneResult> ended;
  {
    MutexLock lock(mutex_);
    const int64_t now_ns = Now();
    for (const PostId id : ids) {
      const auto waiting = std::find_if(backlog_.begin(), backlog_.end(),
                                        [id](const LanePost* post) { return post->id == id; });
      if (waiting != backlog_.end()) {
        ended.push_back({id, Error(reason::kRunCancelled, "it was cancelled before it started"),
                         (*waiting)->block});
        backlog_.erase(waiting);
        continue;
      }
      for (size_t i = 0; i < slots_.size(); ++i) {
        if (slots_[i].post == nullptr || slots_[i].post->id != id) continue;
        slots_[i].cancelled_ns = now_ns;
        ++cancelled_;
        process_->control().posts[i].cancelled.store(id, std::memory_order_release);
      }
    }
    // The thread notes when their grace ends.
    if (cancelled_ > 0) Wake();
  }
  Complete(&ended);
}

void HostKeeper::EndRun(uint64_t run) {
  MutexLock lock(mutex_);
  if (pipe_runs_.erase(run) == 0) return;
  OrderMessage order;
  order.kind = OrderMessage::kEndRun;
  order.subject = run;
  Send(order);
}

void HostKeeper::Resume(const engine::LaneAnswer& answer) {
  MutexLock lock(mutex_);
  if (answer.token >= slots_.size()) return;
  Slot& slot = slots_[answer.token];
  if (slot.post == nullptr || slot.post->id != answer.id || !slot.in_call) return;
  slot.in_call = false;
  if (answer.result != PTO_OK) slot.why = answer.text;
  PostWord& word = process_->control().posts[answer.token];
  word.result.store(answer.result, std::memory_order_relaxed);
  word.event.store(answer.event, std::memory_order_relaxed);
  word.answered.store(slot.call, std::memory_order_seq_cst);
  if (word.sleeps.load(std::memory_order_seq_cst) != 0) FutexWakeChanged(word.answered, 1);
}

void HostKeeper::Kill() {
  int process = -1;
  {
    MutexLock lock(mutex_);
    stop_ = true;
    // From now on nobody uses the posts.
    slots_.clear();
    free_slots_.clear();
    backlog_.clear();
    cancelled_ = 0;
    changed_.NotifyAll();
    Wake();
    if (process_ == nullptr) return;
    process_->Kill();
    process = fcntl(process_->pidfd(), F_DUPFD_CLOEXEC, 0);
  }
  const FileDescriptor owned(process);
  if (!owned.valid() || !HostProcess::AwaitEnd(process, kKillTime)) {
    PTO_LOG(kError, "a killed kernel host does not end", {{"host", options_.name}});
  }
}

// ---- for orders

void HostKeeper::Send(Order order) {
  if (process_ == nullptr) return;
  order.head.number = ++orders_;
  const OrderMessage::Kind kind = order.head.kind;
  if (kind == OrderMessage::kLoad || kind == OrderMessage::kMap || kind == OrderMessage::kDomain) {
    needed_orders_ = orders_;
  }
  if (unsent_.empty()) unsent_since_ns_ = Now();
  unsent_.push_back(std::move(order));
  SendOrders();
  // A new host gets two orders at most for what there is.
  if (unsent_.size() > kMostUnsent + 2 * (regions_.size() + kernels_.size() + domains_.size()) &&
      give_up_.text.empty()) {
    give_up_.text = "it does not take its orders";
  }
  // The thread sends the rest when there is room.
  if (!unsent_.empty()) Wake();
}

int HostKeeper::DescriptorOf(OrderMessage* order) {
  if (order->kind == OrderMessage::kMap) {
    const Region* const region = regions_.Find(order->id);
    if (region != nullptr) return region->memory->shared_descriptor();
    order->kind = OrderMessage::kUnmap;
  } else if (order->kind == OrderMessage::kLoad) {
    const auto kernel = kernels_.find(order->id);
    if (kernel != kernels_.end()) return kernel->second.object.object.get();
    order->kind = OrderMessage::kUnload;
    std::erase(loading_, order->id);
  }
  return -1;
}

void HostKeeper::SendOrders() {
  std::vector<std::byte> bytes;
  while (process_ != nullptr && !unsent_.empty()) {
    Order& order = unsent_.front();
    const int descriptor = DescriptorOf(&order.head);
    bytes.clear();
    EncodeOrder(order, &bytes);
    if (SendMessage(process_->lifeline(), bytes, descriptor) == LifelineResult::kLater) return;
    // If the host is gone, the thread learns of that in another way.
    unsent_.pop_front();
    unsent_since_ns_ = Now();
  }
}

void HostKeeper::SendLoad(uint32_t id, KernelEntry& kernel) {
  Order order;
  order.head.kind = OrderMessage::kLoad;
  order.head.id = id;
  order.head.abi = kernel.object.abi;
  SetText(absl::MakeSpan(order.head.entry), kernel.object.entry);
  SetText(absl::MakeSpan(order.head.file_name), kernel.object.file_name);
  SetText(absl::MakeSpan(order.head.name), kernel.object.name);
  order.signature = kernel.object.signature;
  kernel.state = KernelEntry::State::kLoading;
  loading_.push_back(id);
  Send(std::move(order));
}

void HostKeeper::SendMap(const Region& region) {
  OrderMessage order;
  order.kind = OrderMessage::kMap;
  order.id = region.id;
  order.bytes = region.memory->bytes();
  Send(order);
}

void HostKeeper::SendDomain(const HostedDomain& domain) {
  Order order;
  order.head.kind = OrderMessage::kDomain;
  order.head.subject = domain.number;
  for (const HostedDomain::Window& window : domain.windows) {
    DomainRank& rank = order.ranks.emplace_back();
    rank.chip = window.chip;
    rank.bytes = window.bytes;
    // The host refuses a domain with a window that is in no region.
    regions_.Locate(window.data, window.bytes, &rank.region, &rank.offset);
  }
  Send(std::move(order));
}

}  // namespace pto::host
