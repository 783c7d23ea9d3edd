#include "daemon/config/settings.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using config::v1::DaemonConfig;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

const Setting& Find(absl::string_view key) {
  for (const Setting& setting : AllSettings()) {
    if (setting.key == key) return setting;
  }
  ADD_FAILURE() << "no setting " << key;
  return AllSettings()[0];
}

void CollectKeys(const Descriptor& message, const std::string& prefix,
                 absl::flat_hash_set<std::string>& keys) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const std::string key = absl::StrCat(prefix, field.name());
    if (field.message_type() != nullptr &&
        field.message_type()->file() == DaemonConfig::descriptor()->file()) {
      CollectKeys(*field.message_type(), key + ".", keys);
    } else {
      keys.insert(key);
    }
  }
}

TEST(SettingsTest, EveryFieldIsASettingWithAFlagOfItsOwn) {
  absl::flat_hash_set<std::string> fields;
  CollectKeys(*DaemonConfig::descriptor(), "", fields);
  absl::flat_hash_set<std::string> keys;
  absl::flat_hash_set<std::string> flags;
  for (const Setting& setting : AllSettings()) {
    EXPECT_TRUE(keys.insert(setting.key).second) << setting.key;
    EXPECT_TRUE(flags.insert(setting.flag).second) << setting.flag;
    EXPECT_EQ(absl::string_view(setting.flag).find('_'), absl::string_view::npos);
  }
  EXPECT_EQ(keys, fields);
}

TEST(SettingsTest, EveryDefaultParses) {
  for (const Setting& setting : AllSettings()) {
    DaemonConfig config;
    EXPECT_THAT(SetFromText(setting, setting.default_value, &config), IsOk()) << setting.key;
    if (*setting.default_value != '\0') {
      EXPECT_TRUE(IsSet(setting, config)) << setting.key;
    }
  }
}

TEST(SettingsTest, ParsesEveryType) {
  DaemonConfig config;
  EXPECT_THAT(SetFromText(Find("listen"), "unix:/a", &config), IsOk());
  EXPECT_THAT(SetFromText(Find("listen"), "unix:/b", &config), IsOk());
  EXPECT_EQ(config.listen_size(), 2);
  EXPECT_THAT(SetFromText(Find("allow_remote"), "true", &config), IsOk());
  EXPECT_TRUE(config.allow_remote());
  EXPECT_THAT(SetFromText(Find("sim_chips.count"), "4", &config), IsOk());
  EXPECT_EQ(config.sim_chips().count(), 4u);
  EXPECT_THAT(SetFromText(Find("sim_chips.memory_bytes"), "512M", &config), IsOk());
  EXPECT_EQ(config.sim_chips().memory_bytes(), uint64_t{512} << 20);
  EXPECT_THAT(SetFromText(Find("drain_grace"), "1m0.5s", &config), IsOk());
  EXPECT_EQ(config.drain_grace().seconds(), 60);
  EXPECT_EQ(config.drain_grace().nanos(), 500'000'000);
}

TEST(SettingsTest, SaysWhatWasExpected) {
  const struct {
    const char* key;
    const char* text;
    const char* expected;
  } cases[] = {
      {"allow_remote", "yes", "true or false"},
      {"sim_chips.count", "4G", "a number from 0 to 4294967295"},
      {"sim_chips.count", "4294967296", "a number"},
      {"sim_chips.count", "-1", "a number"},
      {"limits.max_sessions", "many", "a number"},
      {"sim_chips.memory_bytes", "1.5G", "512M or 16G"},
      {"drain_grace", "10", "a duration such as"},
      {"drain_grace", "-10s", "a duration"},
      {"drain_grace", "inf", "a duration"},
  };
  for (const auto& [key, text, expected] : cases) {
    DaemonConfig config;
    const absl::Status status = SetFromText(Find(key), text, &config);
    EXPECT_THAT(status, HasReason(reason::kConfigInvalid));
    EXPECT_THAT(std::string(status.message()), HasSubstr(expected));
    EXPECT_THAT(std::string(status.message()), HasSubstr(key));
    EXPECT_FALSE(IsSet(Find(key), config));
  }
}

TEST(SettingsTest, ZeroMaySayNothing) {
  DaemonConfig config;
  EXPECT_THAT(SetFromText(Find("limits.max_sessions"), "0", &config), IsOk());
  EXPECT_FALSE(IsSet(Find("limits.max_sessions"), config));
  EXPECT_THAT(SetFromText(Find("session.min_ttl"), "0s", &config), IsOk());
  EXPECT_FALSE(IsSet(Find("session.min_ttl"), config));
  EXPECT_THAT(SetFromText(Find("log_level"), "", &config), IsOk());
  EXPECT_FALSE(IsSet(Find("log_level"), config));
  EXPECT_THAT(SetFromText(Find("drain_grace"), "0s", &config), IsOk());
  EXPECT_TRUE(IsSet(Find("drain_grace"), config));
}

TEST(SettingsTest, CopiesOneSettingOnly) {
  DaemonConfig from;
  from.add_listen("unix:/a");
  from.mutable_sim_chips()->set_count(4);
  from.mutable_sim_chips()->set_clusters(36);
  DaemonConfig to;
  to.add_listen("unix:/old");
  to.mutable_sim_chips()->set_clusters(8);
  CopySetting(Find("sim_chips.count"), from, &to);
  EXPECT_EQ(to.sim_chips().count(), 4u);
  EXPECT_EQ(to.sim_chips().clusters(), 8u);
  EXPECT_EQ(to.listen(0), "unix:/old");
  CopySetting(Find("listen"), from, &to);
  ASSERT_EQ(to.listen_size(), 1);
  EXPECT_EQ(to.listen(0), "unix:/a");
}

TEST(SettingsTest, PrintsTextProtobuf) {
  DaemonConfig config;
  config.add_listen("unix:/a\"b");
  config.add_listen("unix:/c");
  config.mutable_drain_grace()->set_seconds(10);
  config.mutable_sim_chips()->set_count(4);
  EXPECT_EQ(ToTextProto(Find("listen"), config), "listen: \"unix:/a\\\"b\"\nlisten: \"unix:/c\"");
  EXPECT_EQ(ToTextProto(Find("drain_grace"), config), "drain_grace { seconds: 10 }");
  EXPECT_EQ(ToTextProto(Find("sim_chips.count"), config), "count: 4");
}

TEST(SettingsTest, PrintsWhatTheCommandLineTakes) {
  for (const Setting& setting : AllSettings()) {
    DaemonConfig config;
    ASSERT_THAT(SetFromText(setting, setting.default_value, &config), IsOk()) << setting.key;
    DaemonConfig again;
    ASSERT_THAT(SetFromText(setting, ToText(setting, config), &again), IsOk()) << setting.key;
    EXPECT_EQ(again.SerializeAsString(), config.SerializeAsString()) << setting.key;
  }
  DaemonConfig config;
  ASSERT_THAT(SetFromText(Find("listen"), "unix:/a", &config), IsOk());
  ASSERT_THAT(SetFromText(Find("listen"), "[::1]:7000", &config), IsOk());
  ASSERT_THAT(SetFromText(Find("drain_grace"), "90s", &config), IsOk());
  EXPECT_EQ(ToText(Find("listen"), config), "unix:/a [::1]:7000");
  EXPECT_EQ(ToText(Find("drain_grace"), config), "1m30s");
}

TEST(SettingsTest, TheDefaultSocketDependsOnTheUser) {
  EXPECT_EQ(DefaultListenAddress(true, "/run/user/0"), "unix:/run/ptod/ptod.sock");
  EXPECT_EQ(DefaultListenAddress(false, "/run/user/7"), "unix:/run/user/7/ptod.sock");
  EXPECT_EQ(DefaultListenAddress(false, nullptr), "unix:/run/ptod/ptod.sock");
  EXPECT_EQ(DefaultListenAddress(false, ""), "unix:/run/ptod/ptod.sock");
}

}  // namespace
}  // namespace pto::daemon
