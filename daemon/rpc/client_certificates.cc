#include "daemon/rpc/client_certificates.h"

#include <openssl/err.h>
#include <openssl/pem.h>
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

// As OpenSSL looks for them: `HASH.r0` and so on.
std::vector<std::string> ListsIn(const std::string& directory) {
  std::vector<std::string> lists;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string extension = entry.path().extension().string();
    const bool is_list = extension.size() > 2 && extension.compare(0, 2, ".r") == 0 &&
                         extension.find_first_not_of("0123456789", 2) == std::string::npos;
    if (is_list && lists.size() < kMaxLists) lists.push_back(entry.path().string());
  }
  std::sort(lists.begin(), lists.end());
  return lists;
}

absl::Status Wrong(absl::string_view setting, absl::string_view what) {
  ERR_clear_error();
  return Error(reason::kConfigInvalid, absl::StrCat(setting, ": ", what)).At(setting);
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

std::string ClientCertificates::Fingerprint() const {
  std::string seen;
  AddFingerprint(ca_file_, &seen);
  if (crl_dir_.empty()) return seen;
  for (const std::string& list : ListsIn(crl_dir_)) AddFingerprint(list, &seen);
  return seen;
}

absl::StatusOr<ClientCertificates::Store> ClientCertificates::MakeStore() const {
  Store store(X509_STORE_new());
  PTO_RETURN_IF_ERROR(AddAuthorities(ca_file_, store.get()));
  if (!crl_dir_.empty()) {
    if (!std::filesystem::is_directory(crl_dir_)) {
      return Wrong("tls.crl_dir", absl::StrCat(crl_dir_, " is no directory"));
    }
    for (const std::string& list : ListsIn(crl_dir_)) {
      PTO_RETURN_IF_ERROR(AddList(list, store.get()));
    }
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
  const auto known = verdicts_.find(certificate);
  if (known != verdicts_.end() && now < known->second.until_ns) return known->second.fault;
  if (known == verdicts_.end() && verdicts_.size() >= kMaxVerdicts) verdicts_.clear();
  Verdict& verdict = verdicts_[certificate];
  verdict.fault = Verify(certificate, chain);
  verdict.until_ns = now + kVerdictNs;
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
