#include "daemon/rpc/tls_check.h"

#include <openssl/err.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daemon/rpc/pem.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon::rpc {
namespace {

absl::Status Wrong(absl::string_view setting, absl::string_view what) {
  return Error(reason::kConfigInvalid, absl::StrCat(setting, ": ", what)).At(setting);
}

absl::StatusOr<Certificate> FirstCertificate(absl::string_view setting, const std::string& path) {
  PTO_ASSIGN_OR_RETURN(const std::string text, ReadPem(setting, path));
  const Bio bio = BioOver(text);
  Certificate certificate = NextCertificate(bio);
  ERR_clear_error();
  if (certificate == nullptr) {
    return Wrong(setting, absl::StrCat(path, " does not begin with a certificate in PEM form"));
  }
  return certificate;
}

}  // namespace

absl::StatusOr<std::string> ReadPem(absl::string_view setting, const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    const std::string cause = errno == 0 ? "it is empty" : std::strerror(errno);
    return Wrong(setting, absl::StrCat("cannot read ", path, ": ", cause));
  }
  return text.str();
}

absl::Status CheckCertificate(const std::string& cert_file, const std::string& key_file,
                              absl::Time now) {
  PTO_ASSIGN_OR_RETURN(const Certificate certificate, FirstCertificate("tls.cert_file", cert_file));
  PTO_ASSIGN_OR_RETURN(const std::string key_text, ReadPem("tls.key_file", key_file));
  const Bio bio = BioOver(key_text);
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return Wrong("tls.key_file", absl::StrCat(key_file,
                                              " has no private key in PEM form, or its "
                                              "key is encrypted"));
  }
  const bool matches = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!matches) {
    return Wrong("tls.key_file", absl::StrCat("the key in ", key_file,
                                              " is not that of the certificate in ", cert_file));
  }
  time_t seconds = absl::ToTimeT(now);
  if (X509_cmp_time(X509_get0_notAfter(certificate.get()), &seconds) < 0) {
    return Wrong("tls.cert_file", absl::StrCat("the certificate in ", cert_file, " has expired"));
  }
  if (X509_cmp_time(X509_get0_notBefore(certificate.get()), &seconds) > 0) {
    return Wrong("tls.cert_file",
                 absl::StrCat("the certificate in ", cert_file, " is not valid yet"));
  }
  return absl::OkStatus();
}

absl::Status CheckAuthorities(const std::string& ca_file) {
  return FirstCertificate("tls.client_ca_file", ca_file).status();
}

}  // namespace pto::daemon::rpc
