#include "daemon/config/validate.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/config/effective.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using config::v1::DaemonConfig;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

// The verdict on the defaults with some settings changed.
absl::Status Validate(const std::string& text) {
  DaemonConfig file;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &file)) << text;
  const absl::StatusOr<EffectiveConfig> effective = MakeEffective(file, {}, "unix:/run/s");
  EXPECT_THAT(effective, IsOk());
  return ValidateConfig(effective->config);
}

TEST(ValidateConfigTest, AcceptsTheDefaults) { EXPECT_THAT(Validate(""), IsOk()); }

TEST(ValidateConfigTest, AcceptsTheBounds) {
  EXPECT_THAT(Validate("sim_chips { count: 256 clusters: 1024 memory_bytes: 1048576 }"), IsOk());
  EXPECT_THAT(Validate("drain_grace { seconds: 0 }"), IsOk());
  EXPECT_THAT(Validate("drain_grace { seconds: 86400 }"), IsOk());
  EXPECT_THAT(Validate("limits { max_chunk_bytes: 1048576 max_message_bytes: 1114112 }"), IsOk());
  EXPECT_THAT(Validate("listen: '127.0.0.1:0' listen: '127.0.0.1:0'"), IsOk());
  EXPECT_THAT(Validate("execution { default_task_timeout {} compile_timeout {} }"), IsOk());
  EXPECT_THAT(Validate("execution { max_spare_threads: 0 spare_after { nanos: 1000000 } }"),
              IsOk());
}

TEST(ValidateConfigTest, NamesTheSettingThatIsWrong) {
  const struct {
    const char* text;
    const char* key;
  } cases[] = {
      {"listen: 'nonsense'", "listen"},
      {"listen: 'unix:/a' listen: 'unix:/a'", "listen"},
      {"sim_chips { count: 257 }", "sim_chips.count"},
      {"sim_chips { clusters: 1025 }", "sim_chips.clusters"},
      {"sim_chips { profile: 'a6' }", "sim_chips.profile"},
      {"sim_chips { memory_bytes: 1000 }", "sim_chips.memory_bytes"},
      {"executor_threads: 1025", "executor_threads"},
      {"log_level: 'loud'", "log_level"},
      {"log_format: 'xml'", "log_format"},
      {"drain_grace { seconds: 86401 }", "drain_grace"},
      {"drain_grace { seconds: -1 }", "drain_grace"},
      {"session { min_ttl { seconds: 60 } }", "session.default_ttl"},
      {"session { max_ttl { seconds: 20 } }", "session.default_ttl"},
      {"session { max_ttl { nanos: 20 } }", "session.max_ttl"},
      {"session { min_ttl { seconds: -1 } }", "session.min_ttl"},
      {"limits { event_log_bytes: 10 }", "limits.event_log_bytes"},
      {"limits { max_message_bytes: 2097152 }", "limits.max_message_bytes"},
      {"limits { max_message_bytes: 2147483648 }", "limits.max_message_bytes"},
      {"limits { max_graph_tasks: 18446744073709551615 }", "limits.max_graph_tasks"},
      {"limits { max_graph_tensors: 18446744073709551615 }", "limits.max_graph_tensors"},
      {"limits { max_graph_edges: 1073741825 }", "limits.max_graph_edges"},
      {"limits { max_memory_bytes: 1000 }", "limits.max_memory_bytes"},
      {"limits { max_client_memory_bytes: 1000 }", "limits.max_client_memory_bytes"},
      {"execution { default_task_timeout { nanos: 1 } }", "execution.default_task_timeout"},
      {"execution { spare_after { seconds: 11 } }", "execution.spare_after"},
      {"execution { max_spare_threads: 1025 }", "execution.max_spare_threads"},
      {"execution { compile_timeout { seconds: 3601 } }", "execution.compile_timeout"},
  };
  for (const auto& [text, key] : cases) {
    const absl::Status status = Validate(text);
    EXPECT_THAT(status, HasReason(reason::kConfigInvalid)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(key)) << text;
    const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
    EXPECT_EQ(detail.has_value() ? detail->field : "", key) << text;
  }
}

TEST(ValidateConfigTest, RefusesOtherMachinesUnlessTold) {
  for (const char* text : {"listen: '0.0.0.0:7000'", "listen: 'unix:/a' listen: '[::]:7000'"}) {
    const absl::Status status = Validate(text);
    EXPECT_THAT(status, HasReason(reason::kConfigInvalid));
    EXPECT_THAT(std::string(status.message()), HasSubstr("--allow-remote"));
  }
  constexpr char kTls[] = " tls { cert_file: '/c' key_file: '/k' }";
  EXPECT_THAT(Validate(absl::StrCat("listen: '0.0.0.0:7000' allow_remote: true", kTls)), IsOk());
  EXPECT_THAT(Validate(absl::StrCat("listen: '0.0.0.0:7000'", kTls)),
              HasReason(reason::kConfigInvalid));
}

TEST(ValidateConfigTest, RefusesOtherMachinesWithoutTls) {
  const absl::Status status = Validate("listen: '0.0.0.0:7000' allow_remote: true");
  EXPECT_THAT(status, HasReason(reason::kConfigInvalid));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--tls-cert"));
}

TEST(ValidateConfigTest, TlsIsComplete) {
  const struct {
    const char* tls;
    const char* needs;
  } cases[] = {
      {"cert_file: '/c'", "tls.cert_file: needs tls.key_file"},
      {"key_file: '/k'", "tls.key_file: needs tls.cert_file"},
      {"client_ca_file: '/a'", "tls.client_ca_file: needs tls.cert_file"},
      {"cert_file: '/c' key_file: '/k' require_client_cert: true",
       "tls.require_client_cert: needs tls.client_ca_file"},
      {"cert_file: '/c' key_file: '/k' crl_dir: '/d'", "tls.crl_dir: needs tls.client_ca_file"},
  };
  for (const auto& [tls, needs] : cases) {
    const absl::Status status = Validate(absl::StrCat("tls { ", tls, " }"));
    EXPECT_THAT(status, HasReason(reason::kConfigInvalid));
    EXPECT_THAT(std::string(status.message()), HasSubstr(needs));
  }
}

}  // namespace
}  // namespace pto::daemon
