#include "daemon/kernels/kernel_store.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

constexpr size_t kDigestBytes = 32;

absl::Status NoMemory(absl::string_view call) {
  const int error = errno;
  return Error(reason::kMemoryBudget, absl::StrCat("the machine cannot hold the file: ", call, ": ",
                                                   std::generic_category().message(error)));
}

}  // namespace

// The SHA-256 of what has come so far.
class KernelStore::Upload::Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  ~Hash() { EVP_MD_CTX_free(context_); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;

  void Add(absl::string_view data) { EVP_DigestUpdate(context_, data.data(), data.size()); }
  std::string Finish() {
    std::string digest(kDigestBytes, '\0');
    EVP_DigestFinal_ex(context_, reinterpret_cast<unsigned char*>(digest.data()), nullptr);
    return digest;
  }

 private:
  EVP_MD_CTX* const context_;
};

KernelStore::Upload::Upload() : hash_(std::make_unique<Hash>()) {}

KernelStore::Upload::~Upload() {
  if (taken_ > 0) store_->GiveBack(*client_, taken_);
}

absl::Status KernelStore::Upload::Append(absl::string_view data) {
  if (data.size() > file_.bytes - received_) {
    return Error(reason::kFieldInvalid, absl::StrCat("more bytes came than the ", file_.bytes,
                                                     " that the first message announced"))
        .At("data")
        .With("have", received_ + data.size())
        .With("want", file_.bytes);
  }
  hash_->Add(data);
  if (known_ != nullptr) {
    received_ += data.size();
    return absl::OkStatus();
  }
  while (!data.empty()) {
    const ssize_t count = write(file_.descriptor.get(), data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return NoMemory("write");
    received_ += static_cast<uint64_t>(count);
    data.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const KernelFile>> KernelStore::Upload::Finish() {
  if (received_ != file_.bytes) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("the upload ended after ", received_, " of ", file_.bytes, " bytes"))
        .At("data")
        .With("have", received_)
        .With("want", file_.bytes)
        .Hint("send all of the file, and its size in the first message");
  }
  const std::string digest = hash_->Finish();
  if (digest != file_.sha256) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("the file has the SHA-256 ", absl::BytesToHexString(digest), ", not ",
                              absl::BytesToHexString(file_.sha256)))
        .At("sha256")
        .With("have", absl::BytesToHexString(digest))
        .With("want", absl::BytesToHexString(file_.sha256))
        .Hint("the file changed while it was read, or bytes were lost on the way");
  }
  if (known_ != nullptr) return std::shared_ptr<const KernelFile>(known_, known_->file.get());
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (fcntl(file_.descriptor.get(), F_ADD_SEALS, kSeals) != 0) return NoMemory("F_ADD_SEALS");
  return store_->Add(*this);
}

absl::StatusOr<std::unique_ptr<KernelStore::Upload>> KernelStore::Begin(
    const std::string& client, const std::shared_ptr<MemoryAccount>& memory, uint64_t bytes,
    absl::string_view sha256) {
  if (bytes == 0) {
    return Error(reason::kFieldInvalid, "the size of the file is missing").At("file_bytes");
  }
  if (bytes > max_kernel_bytes_) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("a kernel has at most ", max_kernel_bytes_, " bytes, not ", bytes))
        .At("file_bytes")
        .Limit("max_kernel_bytes", max_kernel_bytes_, 0, bytes)
        .Hint("strip the file of debug information, or raise max_kernel_bytes");
  }
  if (sha256.size() != kDigestBytes) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("a SHA-256 has ", kDigestBytes, " bytes, not ", sha256.size()))
        .At("sha256")
        .With("have", sha256.size())
        .With("want", kDigestBytes);
  }
  std::unique_ptr<Upload> upload(new Upload);
  upload->store_ = shared_from_this();
  upload->file_.sha256 = std::string(sha256);
  upload->file_.bytes = bytes;
  {
    MutexLock lock(mutex_);
    absl::erase_if(clients_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<Client>& known = clients_[client];
    upload->client_ = known.lock();
    if (upload->client_ == nullptr) {
      upload->client_ = std::make_shared<Client>();
      upload->client_->name = client;
      known = upload->client_;
    }
    const auto mine = upload->client_->shares.find(upload->file_.sha256);
    if (mine != upload->client_->shares.end()) upload->known_ = mine->second.lock();
    if (upload->known_ != nullptr) return upload;
    PTO_RETURN_IF_ERROR(Take(*upload->client_, bytes));
    upload->taken_ = bytes;
  }
  PTO_ASSIGN_OR_RETURN(upload->charge_, HostCharge::Take(memory, bytes, "a kernel"));
  PTO_ASSIGN_OR_RETURN(upload->descriptor_, TakeDescriptor(client));
  upload->file_.descriptor =
      FileDescriptor(memfd_create("ptod-kernel", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!upload->file_.descriptor.valid()) return NoMemory("memfd_create");
  return upload;
}

absl::StatusOr<std::shared_ptr<const void>> KernelStore::TakeDescriptor(const std::string& client) {
  DescriptorShares::Limit exceeded;
  std::shared_ptr<const void> taken = descriptors_->Take(client, &exceeded);
  if (taken != nullptr) return taken;
  return Error(
             reason::kQuotaKernels,
             absl::StrCat(
                 exceeded.of_client ? absl::StrCat("client ", client, " has") : "there are", " ",
                 exceeded.used, " file descriptors of the daemon for kernels, of ", exceeded.limit))
      .At("file_bytes")
      .Limit("kernel_descriptors", exceeded.limit, exceeded.used, 1)
      .Hint("delete uploaded kernels that are no longer used, or raise LimitNOFILE of the daemon");
}

absl::StatusOr<std::shared_ptr<const void>> KernelStore::ChargeLoaded(
    const std::string& client, const std::shared_ptr<MemoryAccount>& memory,
    const KernelFile& file) {
  struct Loaded {
    HostCharge charge;
    std::shared_ptr<const void> descriptor;
  };
  const auto loaded = std::make_shared<Loaded>();
  PTO_ASSIGN_OR_RETURN(loaded->charge,
                       HostCharge::Take(memory, file.bytes + kLoadedBytes, "a loaded kernel"));
  PTO_ASSIGN_OR_RETURN(loaded->descriptor, TakeDescriptor(client));
  return loaded;
}

absl::Status KernelStore::Take(Client& client, uint64_t bytes) {
  if (bytes > max_client_bytes_ || client.used > max_client_bytes_ - bytes) {
    return Error(reason::kQuotaKernels, absl::StrCat("client ", client.name, " may have ",
                                                     max_client_bytes_, " bytes of kernels, has ",
                                                     client.used, " and wants ", bytes, " more"))
        .At("file_bytes")
        .Limit("max_client_kernel_bytes", max_client_bytes_, client.used, bytes);
  }
  client.used += bytes;
  return absl::OkStatus();
}

void KernelStore::GiveBack(Client& client, uint64_t bytes) {
  MutexLock lock(mutex_);
  client.used -= bytes;
}

std::shared_ptr<const KernelFile> KernelStore::Add(Upload& upload) {
  auto share = std::make_shared<Share>();
  MutexLock lock(mutex_);
  Client& client = *upload.client_;
  std::weak_ptr<Share>& mine = client.shares[upload.file_.sha256];
  // What was charged for the upload is given back if the client has the file already.
  if (std::shared_ptr<Share> have = mine.lock(); have != nullptr) {
    return std::shared_ptr<const KernelFile>(have, have->file.get());
  }
  std::weak_ptr<const KernelFile>& all = files_[upload.file_.sha256];
  share->file = all.lock();
  if (share->file == nullptr) {
    share->file = std::make_shared<const KernelFile>(std::move(upload.file_));
    all = share->file;
  }
  share->store = shared_from_this();
  share->client = upload.client_;
  share->taken = std::exchange(upload.taken_, 0);
  share->charge = std::move(upload.charge_);
  share->descriptor = std::move(upload.descriptor_);
  mine = share;
  return std::shared_ptr<const KernelFile>(share, share->file.get());
}

void KernelStore::Drop(Share& share) {
  const std::string name = share.file->sha256;
  share.file.reset();  // closed without the lock
  MutexLock lock(mutex_);
  share.client->used -= share.taken;
  // Another one may have come since.
  const auto mine = share.client->shares.find(name);
  if (mine != share.client->shares.end() && mine->second.expired()) {
    share.client->shares.erase(mine);
  }
  // Whoever lets go of the file last comes here after that.
  const auto all = files_.find(name);
  if (all != files_.end() && all->second.expired()) files_.erase(all);
}

KernelStore::Stored KernelStore::stored() const {
  MutexLock lock(mutex_);
  Stored stored;
  for (const auto& [sha256, weak] : files_) {
    const std::shared_ptr<const KernelFile> file = weak.lock();
    if (file == nullptr) continue;
    ++stored.files;
    stored.bytes += file->bytes;
  }
  return stored;
}

size_t KernelStore::known_files() const {
  MutexLock lock(mutex_);
  return files_.size();
}

}  // namespace pto::daemon
