#pragma once

#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace pto::daemon::rpc {

// Whether the certificate of a client is valid now, by the files as they are now. gRPC asks this
// only once, at the start of a connection, and not at all when a client resumes a TLS session: for
// hours after that the certificate may have expired, been revoked, or lost its authority. And gRPC
// would read a revocation list only once.
//
// A verdict holds for a second, so a call costs a look into a table. Thread-safe.
class ClientCertificates {
 public:
  // `crl_dir`: a directory with revocation lists, named as `openssl rehash` does; empty: nothing is
  // revoked. Otherwise each authority needs a list that is not out of date. Errors: CONFIG_INVALID.
  static absl::StatusOr<std::shared_ptr<ClientCertificates>> Load(
      std::string ca_file, std::string crl_dir, const Clock& clock = Clock::Real());

  // Why the certificate is not valid; empty when it is. `chain`: what came with it. In PEM form. A
  // resumed TLS session has no chain: then that counts with which the certificate was valid last.
  std::string FaultOf(absl::string_view certificate, absl::string_view chain);

  // Those of this process's TLS listener; nullptr if there is none.
  static std::shared_ptr<ClientCertificates> OfProcess();
  static void UseInProcess(std::shared_ptr<ClientCertificates> certificates);

 private:
  struct FreeStore {
    void operator()(X509_STORE* store) const { X509_STORE_free(store); }
  };
  using Store = std::unique_ptr<X509_STORE, FreeStore>;
  // By hashes of what they are about.
  struct Verdict {
    std::string fault;
    int64_t until_ns = 0;
  };

  ClientCertificates(std::string ca_file, std::string crl_dir, const Clock& clock)
      : ca_file_(std::move(ca_file)), crl_dir_(std::move(crl_dir)), clock_(clock) {}

  // Changes when one of the files does.
  std::string Fingerprint() const;
  // The revocation lists of the directory.
  absl::StatusOr<std::vector<std::string>> Lists() const;
  absl::StatusOr<Store> MakeStore() const;
  void LookAtFiles(int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Verify(absl::string_view certificate, absl::string_view chain) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string ca_file_;
  const std::string crl_dir_;
  const Clock& clock_;
  Mutex mutex_;
  Store store_ ABSL_GUARDED_BY(mutex_);
  std::string seen_ ABSL_GUARDED_BY(mutex_);
  int64_t next_look_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, Verdict> verdicts_ ABSL_GUARDED_BY(mutex_);
  // What came with certificates when they were valid last, by their hashes.
  absl::flat_hash_map<std::string, std::string> chains_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon::rpc
