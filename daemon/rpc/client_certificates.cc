#include "daemon/rpc/client_certificates.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/rpc/pem.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon::rpc {
namespace {

constexpr int64_t kVerdictNs = 1'000'000'000;
constexpr size_t kMaxVerdicts = 1024;
// Some intermediate authorities.
constexpr size_t kMaxChainBytes = 16 << 10;
// Files of the directory that are read.
constexpr size_t kMaxLists = 1024;

struct ProcessCertificates {
  Mutex mutex;
  std::shared_ptr<ClientCertificates> certificates ABSL_GUARDED_BY(mutex);
};

ProcessCertificates& Process() {
  static auto* const process = new ProcessCertificates;
  return *process;
}

void AddFingerprint(const std::string& path, std::string* to) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) return absl::StrAppend(to, path, " missing\n");
  absl::StrAppend(to, path, " ", file.st_ino, " ", file.st_size, " ", file.st_mtim.tv_sec, ".",
                  file.st_mtim.tv_nsec, "\n");
}

absl::Status Wrong(absl::string_view setting, absl::string_view what) {
  ERR_clear_error();
  return Error(reason::kConfigInvalid, absl::StrCat(setting, ": ", what)).At(setting);
}

// As OpenSSL names them: `HASH.r0` and so on.
bool IsList(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  return extension.size() > 2 && extension.compare(0, 2, ".r") == 0 &&
         extension.find_first_not_of("0123456789", 2) == std::string::npos;
}

std::string KeyOf(absl::string_view certificate, absl::string_view chain) {
  const std::string all = absl::StrCat(certificate.size(), " ", certificate, chain);
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

absl::Status AddAuthorities(const std::string& path, X509_STORE* store) {
  PTO_ASSIGN_OR_RETURN(const std::string text, ReadPem("tls.client_ca_file", path));
  const Bio bio = BioOver(text);
  int added = 0;
  while (const Certificate authority = NextCertificate(bio)) {
    added += X509_STORE_add_cert(store, authority.get());
  }
  if (added == 0) {
    return Wrong("tls.client_ca_file", absl::StrCat(path, " has no certificate in PEM form"));
  }
  ERR_clear_error();
  return absl::OkStatus();
}

absl::Status AddList(const std::string& path, X509_STORE* store) {
  PTO_ASSIGN_OR_RETURN(const std::string text, ReadPem("tls.crl_dir", path));
  const Bio bio = BioOver(text);
  X509_CRL* const list = PEM_read_bio_X509_CRL(bio.get(), nullptr, NoPassword, nullptr);
  if (list == nullptr) {
    return Wrong("tls.crl_dir", absl::StrCat(path, " is no revocation list in PEM form"));
  }
  X509_STORE_add_crl(store, list);
  X509_CRL_free(list);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<ClientCertificates>> ClientCertificates::Load(std::string ca_file,
                                                                             std::string crl_dir,
                                                                             const Clock& clock) {
  std::shared_ptr<ClientCertificates> loaded(
      new ClientCertificates(std::move(ca_file), std::move(crl_dir), clock));
  MutexLock lock(loaded->mutex_);
  loaded->seen_ = loaded->Fingerprint();
  PTO_ASSIGN_OR_RETURN(loaded->store_, loaded->MakeStore());
  return loaded;
}

absl::StatusOr<std::vector<std::string>> ClientCertificates::Lists() const {
  std::vector<std::string> lists;
  std::error_code error;
  std::filesystem::directory_iterator entry(crl_dir_, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (IsList(entry->path()) && lists.size() < kMaxLists) lists.push_back(entry->path().string());
  }
  if (error) {
    return Wrong("tls.crl_dir", absl::StrCat(crl_dir_, " cannot be read: ", error.message()));
  }
  std::sort(lists.begin(), lists.end());
  return lists;
}

std::string ClientCertificates::Fingerprint() const {
  std::string seen;
  AddFingerprint(ca_file_, &seen);
  if (crl_dir_.empty()) return seen;
  const absl::StatusOr<std::vector<std::string>> lists = Lists();
  if (!lists.ok()) return absl::StrCat(seen, lists.status().message());
  for (const std::string& list : *lists) AddFingerprint(list, &seen);
  return seen;
}

absl::StatusOr<ClientCertificates::Store> ClientCertificates::MakeStore() const {
  Store store(X509_STORE_new());
  PTO_RETURN_IF_ERROR(AddAuthorities(ca_file_, store.get()));
  if (!crl_dir_.empty()) {
    PTO_ASSIGN_OR_RETURN(const std::vector<std::string> lists, Lists());
    for (const std::string& list : lists) PTO_RETURN_IF_ERROR(AddList(list, store.get()));
    X509_STORE_set_flags(store.get(), X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  }
  return store;
}

void ClientCertificates::LookAtFiles(int64_t now_ns) {
  if (now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + kVerdictNs;
  std::string seen = Fingerprint();
  if (seen == seen_) return;
  // Also if they cannot be read: one line in the log for each version is enough.
  seen_ = std::move(seen);
  absl::StatusOr<Store> store = MakeStore();
  if (!store.ok()) {
    PTO_LOG(kError,
            "the files of client certificates have changed and cannot be read: what was "
            "known before stays",
            {{"error", store.status().message()}});
    return;
  }
  store_ = *std::move(store);
  verdicts_.clear();
  PTO_LOG(kInfo, "the files of client certificates were read again", {});
}

std::string ClientCertificates::Verify(absl::string_view certificate,
                                       absl::string_view chain) const {
  const Certificate leaf = NextCertificate(BioOver(certificate));
  if (leaf == nullptr) return "cannot be read";
  STACK_OF(X509)* const others = sk_X509_new_null();
  const Bio bio = BioOver(chain);
  while (Certificate other = NextCertificate(bio)) sk_X509_push(others, other.release());
  X509_STORE_CTX* const context = X509_STORE_CTX_new();
  std::string fault;
  if (X509_STORE_CTX_init(context, store_.get(), leaf.get(), others) != 1) {
    fault = "cannot be checked";
  } else {
    X509_STORE_CTX_set_purpose(context, X509_PURPOSE_SSL_CLIENT);
    X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context),
                               absl::ToTimeT(clock_.WallTime()));
    if (X509_verify_cert(context) != 1) {
      fault = X509_verify_cert_error_string(X509_STORE_CTX_get_error(context));
    }
  }
  X509_STORE_CTX_free(context);
  sk_X509_pop_free(others, X509_free);
  ERR_clear_error();
  return fault;
}

std::string ClientCertificates::FaultOf(absl::string_view certificate, absl::string_view chain) {
  const int64_t now = clock_.NowNanos();
  MutexLock lock(mutex_);
  LookAtFiles(now);
  if (chain.empty()) {
    const auto before = chains_.find(KeyOf(certificate, ""));
    if (before != chains_.end()) chain = before->second;
  }
  const std::string key = KeyOf(certificate, chain);
  const auto known = verdicts_.find(key);
  if (known != verdicts_.end() && now < known->second.until_ns) return known->second.fault;
  if (known == verdicts_.end() && verdicts_.size() >= kMaxVerdicts) verdicts_.clear();
  Verdict& verdict = verdicts_[key];
  verdict.fault = Verify(certificate, chain);
  verdict.until_ns = now + kVerdictNs;
  if (verdict.fault.empty() && chain.size() <= kMaxChainBytes) {
    const std::string leaf = KeyOf(certificate, "");
    if (!chains_.contains(leaf) && chains_.size() >= kMaxVerdicts) chains_.clear();
    std::string remembered(chain);  // it may be the entry itself
    chains_[leaf] = std::move(remembered);
  }
  return verdict.fault;
}

std::shared_ptr<ClientCertificates> ClientCertificates::OfProcess() {
  MutexLock lock(Process().mutex);
  return Process().certificates;
}

void ClientCertificates::UseInProcess(std::shared_ptr<ClientCertificates> certificates) {
  MutexLock lock(Process().mutex);
  Process().certificates = std::move(certificates);
}

}  // namespace pto::daemon::rpc
