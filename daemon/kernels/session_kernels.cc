#include "daemon/kernels/session_kernels.h"

#include <fcntl.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/names/names.h"
#include "runtime/base/error.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/host/host_lane.h"
#include "runtime/host/hosted_kernel.h"

namespace pto::daemon {
namespace {

// The session's memory, as its host sees it.
class HostMemoryView final : public MemoryView {
 public:
  explicit HostMemoryView(std::shared_ptr<host::HostKeeper> keeper) : keeper_(std::move(keeper)) {}

  absl::Status Show(std::shared_ptr<engine::HostAllocation> memory) override {
    return keeper_->AddMemory(std::move(memory));
  }
  void Hide(const engine::HostAllocation& memory) override { keeper_->RemoveMemory(memory); }
  void ShowDomain(const SharedDomain& domain) override {
    host::HostedDomain hosted;
    hosted.number = domain.number;
    for (const SharedDomain::Window& window : domain.windows) {
      hosted.windows.push_back({window.chip, window.data, window.bytes});
    }
    if (absl::Status added = keeper_->AddDomain(hosted); !added.ok()) {
      PTO_LOG(kWarning, "a kernel host does not take a domain",
              {{"host", keeper_->name()}, {"error", added.ToString()}});
    }
  }
  void HideDomain(uint64_t number) override { keeper_->RemoveDomain(number); }

 private:
  const std::shared_ptr<host::HostKeeper> keeper_;
};

// What a host says of an object that it does not load.
absl::Status Refused(const absl::Status& error, const SessionKernels::Upload& upload) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(error);
  if (!detail.has_value() || detail->reason != reason::kFieldInvalid.name) return error;
  return Error(reason::kKernelInvalid, error.message())
      .At("data")
      .With("file", upload.file_name)
      .Hint(detail->hint);
}

// One hash, as the signature alone can be long.
std::string HashOfIdentity(const KernelFile& file, absl::string_view entry,
                           absl::string_view signature) {
  const std::string all = absl::StrCat(file.sha256, entry, absl::string_view("\0", 1), signature);
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

// What a kernel of a graph needs. The file stays, and is charged, as long as a host may have to
// load it again.
struct Code {
  ~Code() { identities->Remove(hosted.get()); }
  std::shared_ptr<const host::HostedKernel> hosted;
  std::shared_ptr<const KernelFile> file;
  std::shared_ptr<const void> charge;
  std::shared_ptr<KernelIdentities> identities;
};

}  // namespace

// ---- names

std::shared_ptr<const Kernel> SessionKernels::Find(absl::string_view name) const {
  absl::string_view id = name;
  if (absl::ConsumePrefix(&id, "kernels/")) return options_.built_in->Find(id);
  const bool own = absl::ConsumePrefix(&id, "sessions/");
  if (own &&
      (!absl::ConsumePrefix(&id, options_.session) || !absl::ConsumePrefix(&id, "/kernels/"))) {
    return nullptr;
  }
  if (count_.load(std::memory_order_acquire) > 0) {
    MutexLock lock(mutex_);
    const auto found = kernels_.find(id);
    if (found != kernels_.end()) return found->second->kernel;
  }
  return own ? nullptr : options_.built_in->Find(id);
}

std::vector<std::shared_ptr<const Kernel>> SessionKernels::List() const {
  std::vector<std::shared_ptr<const Kernel>> all = options_.built_in->List();
  MutexLock lock(mutex_);
  std::erase_if(all,
                [this](const std::shared_ptr<const Kernel>& kernel)
                    ABSL_NO_THREAD_SAFETY_ANALYSIS { return kernels_.contains(kernel->name()); });
  for (const auto& [id, uploaded] : kernels_) all.push_back(uploaded->kernel);
  std::sort(all.begin(), all.end(),
            [](const std::shared_ptr<const Kernel>& a, const std::shared_ptr<const Kernel>& b) {
              return a->name() < b->name();
            });
  return all;
}

// ---- uploaded kernels

absl::Status SessionKernels::CheckOpen() const {
  if (!closed_) return absl::OkStatus();
  return Error(reason::kSessionEnded, absl::StrCat("session ", options_.name, " has ended"))
      .With("session", options_.name);
}

absl::Status SessionKernels::Unknown(absl::string_view id) const {
  return Error(reason::kKernelUnknown,
               absl::StrCat(options_.name, " has no kernel ", names::Quoted(id)))
      .At("name")
      .With("kernel", id)
      .With("session", options_.name);
}

absl::StatusOr<std::shared_ptr<const SessionKernel>> SessionKernels::FindSame(
    const Upload& upload, const std::string& id, const Host& host) const {
  const auto found = kernels_.find(id);
  if (found == kernels_.end()) return nullptr;
  const SessionKernel& known = *found->second;
  if (known.identity->hash == HashOfIdentity(*upload.file, upload.entry, upload.signature)) {
    const bool runs =
        host.port != nullptr && !host.port->lost() && known.kernel->lane() == host.port.get();
    return runs ? found->second : nullptr;
  }
  return Error(reason::kIdConflict,
               absl::StrCat("kernel '", id, "' exists with other contents, or another signature"))
      .At("kernel_id")
      .With("kernel", id)
      .Hint("delete it first, or choose another id");
}

absl::StatusOr<std::shared_ptr<const SessionKernel>> SessionKernels::Register(
    const Upload& upload) {
  if (options_.hosts == nullptr) {
    return Error(reason::kNotAvailable, "this node has no kernel hosts");
  }
  PTO_RETURN_IF_ERROR(options_.hosts->CheckAvailable());
  std::shared_ptr<const SessionKernel> same;
  const auto find = [&](const std::string& id, const Host& host)
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
    PTO_RETURN_IF_ERROR(CheckOpen());
    if (id.empty()) return absl::OkStatus();
    PTO_ASSIGN_OR_RETURN(same, FindSame(upload, id, host));
    return absl::OkStatus();
  };
  {
    MutexLock lock(mutex_);
    PTO_RETURN_IF_ERROR(find(upload.id, host_));
    if (same != nullptr) return same;
  }
  const auto give_up = [this, &upload] {
    if (upload.gone != nullptr && upload.gone()) return true;
    MutexLock lock(mutex_);
    return closed_;
  };
  PTO_ASSIGN_OR_RETURN(const Host host, EnsureHost(give_up));
  {
    // A new host has what the one before had.
    MutexLock lock(mutex_);
    PTO_RETURN_IF_ERROR(find(upload.id, host));
    if (same != nullptr) return same;
  }
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<const void> charge, options_.charge(*upload.file));
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<const SessionKernel> loaded,
                       Load(host, upload, std::move(charge)));
  std::shared_ptr<const SessionKernel> before;  // destroyed without the lock
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(find(loaded->id, host));
  if (same != nullptr) return same;
  before = std::exchange(kernels_[loaded->id], loaded);
  count_.store(kernels_.size(), std::memory_order_release);
  return loaded;
}

absl::StatusOr<SessionKernels::Host> SessionKernels::EnsureHost(
    const std::function<bool()>& give_up) {
  Host host;
  {
    MutexLock lock(mutex_);
    PTO_RETURN_IF_ERROR(CheckOpen());
    host = host_;
  }
  if (host.port != nullptr && !host.port->lost()) return host;
  KernelHosts& hosts = *options_.hosts;
  // The engine has given it up.
  if (host.keeper != nullptr) hosts.Retire(std::move(host.keeper));
  host = Host{hosts.Start(options_.name), nullptr};
  // Whatever goes wrong from here on ends it: it is the session's only when all is ready.
  const auto fail = [&](absl::Status why) {
    host.port.reset();
    hosts.Retire(std::move(host.keeper));
    return why;
  };
  if (!host.keeper->AwaitReady(hosts.options().start_timeout)) {
    const std::string why = host.keeper->status().last_death;
    return fail(Error(reason::kHostLost, why.empty()
                                             ? absl::StrCat("the kernel host of ", options_.name,
                                                            " did not start in time")
                                             : why)
                    .With("session", options_.name)
                    .Hint("the machine may be overloaded; upload the kernel again later"));
  }
  host.port = options_.engine->AddLane(std::make_shared<host::HostLane>(host.keeper));
  options_.memory->ShowTo(
      std::make_shared<HostMemoryView>(host.keeper), hosts.sharing(),
      [&hosts, client = options_.client] { return hosts.TakeBufferFile(client); });
  if (absl::Status moved = options_.move_memory(give_up); !moved.ok()) {
    options_.memory->ShowTo(nullptr, nullptr);
    return fail(std::move(moved));
  }
  ReloadAll(host);
  MutexLock lock(mutex_);
  if (closed_) return fail(CheckOpen());
  host_ = host;
  return host;
}

void SessionKernels::ReloadAll(const Host& host) {
  for (const std::shared_ptr<const SessionKernel>& old : ListUploaded("", SIZE_MAX)) {
    const absl::StatusOr<std::shared_ptr<const SessionKernel>> loaded =
        Load(host, {old->id, old->file_name, old->entry, old->signature, old->file, nullptr},
             old->charge);
    MutexLock lock(mutex_);
    const auto found = kernels_.find(old->id);
    if (found == kernels_.end() || found->second != old) continue;
    if (loaded.ok()) {
      found->second = *loaded;
      continue;
    }
    PTO_LOG(kWarning, "a kernel cannot be loaded again",
            {{"session", options_.session},
             {"kernel", old->id},
             {"error", loaded.status().ToString()}});
  }
}

absl::StatusOr<std::shared_ptr<const SessionKernel>> SessionKernels::Load(
    const Host& host, const Upload& upload, std::shared_ptr<const void> charge) {
  FileDescriptor object(fcntl(upload.file->descriptor.get(), F_DUPFD_CLOEXEC, 0));
  if (!object.valid()) {
    return Error(reason::kQuotaKernels, "the daemon has no more file descriptors")
        .Hint("try again later; the operator can raise LimitNOFILE of the daemon");
  }
  host::HostedObject load;
  load.object = std::move(object);
  load.entry = upload.entry;
  load.file_name = upload.file_name;
  if (!upload.signature.empty()) {
    if (upload.id.empty()) {
      return Error(reason::kFieldInvalid, "a kernel of the PTO ABI does not name itself")
          .At("kernel_id");
    }
    load.abi = host::HostAbi::kPto;
    load.name = upload.id;
    load.signature = upload.signature;
  }
  absl::StatusOr<std::shared_ptr<const host::HostedKernel>> hosted =
      host.keeper->Load(std::move(load), options_.hosts->options().load_timeout);
  if (!hosted.ok()) return Refused(hosted.status(), upload);
  auto loaded = std::make_shared<SessionKernel>();
  pto_kernel_info info = (*hosted)->info();
  loaded->id = upload.id.empty() ? info.name : upload.id;
  PTO_RETURN_IF_ERROR(names::CheckKernelId(loaded->id, "kernel_id"));
  if ((*hosted)->has_plan()) {
    return Error(reason::kKernelInvalid, absl::StrCat("'", upload.file_name,
                                                      "' works in phases, which only built-in "
                                                      "kernels can"))
        .At("data")
        .Hint("leave `plan` of its pto_kernel_info empty");
  }
  loaded->blocks = (info.flags & PTO_KERNEL_BLOCKS) != 0;
  info.name = loaded->id.c_str();
  const host::HostedKernel* const data = hosted->get();
  loaded->identity = std::make_shared<const KernelIdentity>(
      KernelIdentity{loaded->id, HashOfIdentity(*upload.file, upload.entry, upload.signature)});
  identities_->Add(data, loaded->identity);
  auto code = std::make_shared<Code>();
  code->hosted = *std::move(hosted);
  code->file = upload.file;
  code->charge = charge;
  code->identities = identities_;
  absl::StatusOr<std::shared_ptr<const Kernel>> kernel =
      Kernel::OnLane(info, data, std::move(code), host.port);
  if (!kernel.ok()) return Refused(kernel.status(), upload);
  loaded->kernel = *std::move(kernel);
  loaded->file_name = upload.file_name;
  loaded->entry = upload.entry;
  loaded->signature = upload.signature;
  loaded->file = upload.file;
  loaded->charge = std::move(charge);
  loaded->create_time = options_.clock->WallTime();
  return loaded;
}

absl::StatusOr<std::shared_ptr<const SessionKernel>> SessionKernels::Get(
    absl::string_view id) const {
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckOpen());
  const auto found = kernels_.find(id);
  if (found == kernels_.end()) return Unknown(id);
  return found->second;
}

std::vector<std::shared_ptr<const SessionKernel>> SessionKernels::ListUploaded(
    absl::string_view after, size_t limit) const {
  std::vector<std::shared_ptr<const SessionKernel>> list;
  MutexLock lock(mutex_);
  for (auto it = kernels_.upper_bound(after); it != kernels_.end() && list.size() < limit; ++it) {
    list.push_back(it->second);
  }
  return list;
}

absl::StatusOr<std::shared_ptr<const SessionKernel>> SessionKernels::Remove(absl::string_view id) {
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckOpen());
  const auto found = kernels_.find(id);
  if (found == kernels_.end()) return Unknown(id);
  std::shared_ptr<const SessionKernel> removed = std::move(found->second);
  kernels_.erase(found);
  count_.store(kernels_.size(), std::memory_order_release);
  return removed;
}

std::string SessionKernels::FindChanged(const UsedKernels& used) const {
  MutexLock lock(mutex_);
  for (const std::shared_ptr<const KernelIdentity>& kernel : used) {
    const auto found = kernels_.find(kernel->name);
    if (found != kernels_.end() && found->second->identity->hash != kernel->hash) {
      return kernel->name;
    }
  }
  return "";
}

// ---- the process

absl::optional<host::HostStatus> SessionKernels::host() const {
  std::shared_ptr<host::HostKeeper> keeper;
  {
    MutexLock lock(mutex_);
    keeper = host_.keeper;
  }
  if (keeper == nullptr) return absl::nullopt;
  return keeper->status();
}

size_t SessionKernels::size() const { return count_.load(std::memory_order_acquire); }

void SessionKernels::Close() {
  decltype(kernels_) kernels;  // destroyed without the lock
  MutexLock lock(mutex_);
  closed_ = true;
  kernels.swap(kernels_);
  count_.store(0, std::memory_order_release);
}

void SessionKernels::EndHost() {
  Host host;
  MutexLock lock(mutex_);
  if (!closed_) return;
  host = std::move(host_);
  host_ = Host();
  if (host.keeper != nullptr) options_.hosts->Retire(host.keeper);
}

}  // namespace pto::daemon
