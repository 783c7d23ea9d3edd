#include "tests/harness/certificates.h"

#include <gtest/gtest.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <atomic>
#include <ctime>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/log.h"

namespace pto::testing {
namespace {

void Must(bool done) { PTO_CHECK(done, "OpenSSL makes what a test needs"); }

std::string NewName() {
  static std::atomic<int> number{0};
  return absl::StrCat(::testing::TempDir(), "/certificate-", number++);
}

std::string WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

template <typename Write>
std::string ToPem(const Write& write) {
  BIO* const bio = BIO_new(BIO_s_mem());
  Must(write(bio) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

void AddExtension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  Must(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

}  // namespace

struct TestCertificate::Parts {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  ~Parts() {
    EVP_PKEY_free(key);
    X509_free(certificate);
  }
};

TestCertificate TestCertificate::Authority(const std::string& name) {
  Options options;
  options.name = name;
  return SignedBy(TestCertificate(), options);
}

TestCertificate TestCertificate::SignedBy(const TestCertificate& authority,
                                          const Options& options) {
  static std::atomic<int> serial{1};
  const bool signs_itself = authority.parts_ == nullptr;
  const bool is_authority = signs_itself || options.authority;
  const auto parts = std::make_shared<Parts>();
  X509* const made = parts->certificate;
  X509* const issuer = signs_itself ? made : authority.parts_->certificate;
  Must(X509_set_version(made, X509_VERSION_3) == 1);
  ASN1_INTEGER_set(X509_get_serialNumber(made), serial++);
  X509_gmtime_adj(X509_getm_notBefore(made), absl::ToInt64Seconds(options.begins));
  X509_gmtime_adj(X509_getm_notAfter(made), absl::ToInt64Seconds(options.ends));
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(options.name.c_str()), -1, -1,
                             0);
  Must(X509_set_issuer_name(made, X509_get_subject_name(issuer)) == 1);
  Must(X509_set_pubkey(made, parts->key) == 1);
  AddExtension(made, issuer, NID_basic_constraints, is_authority ? "critical,CA:TRUE" : "CA:FALSE");
  if (is_authority) AddExtension(made, issuer, NID_key_usage, "critical,keyCertSign,cRLSign");
  AddExtension(made, issuer, NID_subject_key_identifier, "hash");
  AddExtension(made, issuer, NID_authority_key_identifier, "keyid");
  if (!options.host.empty()) {
    AddExtension(made, issuer, NID_subject_alt_name, absl::StrCat("DNS:", options.host));
  }
  EVP_PKEY* const signer = signs_itself ? parts->key : authority.parts_->key;
  Must(X509_sign(made, signer, EVP_sha256()) > 0);

  TestCertificate result;
  result.parts_ = parts;
  result.certificate_ = ToPem([&](BIO* bio) { return PEM_write_bio_X509(bio, made); });
  result.key_ = ToPem([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, parts->key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  return result;
}

std::string TestCertificate::CertificateFile() const {
  return WriteFile(NewName() + ".pem", certificate_);
}

std::string TestCertificate::KeyFile() const { return WriteFile(NewName() + ".key", key_); }

void TestCertificate::WriteRevocationList(const std::string& directory,
                                          const TestCertificate& authority,
                                          const std::vector<const TestCertificate*>& revoked,
                                          absl::Duration valid_for) {
  X509_CRL* const list = X509_CRL_new();
  Must(X509_CRL_set_version(list, X509_CRL_VERSION_2) == 1);
  X509* const issuer = authority.parts_->certificate;
  Must(X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer)) == 1);
  ASN1_TIME* const now = ASN1_TIME_set(nullptr, std::time(nullptr) - 60);
  ASN1_TIME* const next =
      ASN1_TIME_set(nullptr, std::time(nullptr) + absl::ToInt64Seconds(valid_for));
  X509_CRL_set1_lastUpdate(list, now);
  X509_CRL_set1_nextUpdate(list, next);
  for (const TestCertificate* each : revoked) {
    X509_REVOKED* const entry = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(each->parts_->certificate));
    X509_REVOKED_set_revocationDate(entry, now);
    Must(X509_CRL_add0_revoked(list, entry) == 1);
  }
  Must(X509_CRL_sign(list, authority.parts_->key, EVP_sha256()) > 0);
  const std::string text = ToPem([&](BIO* bio) { return PEM_write_bio_X509_CRL(bio, list); });
  const uint64_t hash = X509_NAME_hash_ex(X509_get_subject_name(issuer), nullptr, nullptr, nullptr);
  // Renamed over the former one, so that nobody reads half of it.
  const std::string path = absl::StrFormat("%s/%08x.r0", directory, hash);
  WriteFile(path + ".new", text);
  Must(std::rename((path + ".new").c_str(), path.c_str()) == 0);
  ASN1_TIME_free(now);
  ASN1_TIME_free(next);
  X509_CRL_free(list);
}

std::string TestCertificate::RevocationDirectory(const TestCertificate& authority,
                                                 const TestCertificate& revoked) {
  const std::string directory = NewName();
  mkdir(directory.c_str(), 0700);
  WriteRevocationList(directory, authority, {&revoked});
  return directory;
}

}  // namespace pto::testing
