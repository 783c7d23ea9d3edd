#include "daemon/auth/policy.h"

#include <grp.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/names/names.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon::auth {
namespace {

using policy::v1::AccessPolicy;
using Grant = policy::v1::Grant;

constexpr absl::string_view kEveryone = "everyone";
constexpr absl::string_view kGroup = "group-";
constexpr uint32_t kMaxWeight = 1000;

// Keeps the first error: the others follow from it.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    // protobuf counts from zero.
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status Wrong(absl::string_view what) { return Error(reason::kConfigInvalid, what); }

absl::StatusOr<uint32_t> FindGroup(absl::string_view name) {
  uint32_t number = 0;
  if (absl::SimpleAtoi(name, &number)) return number;
  std::vector<char> buffer(1 << 16);
  group entry = {};
  group* found = nullptr;
  getgrnam_r(std::string(name).c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) {
    return Wrong(absl::StrCat("this machine has no group ", names::Quoted(name)));
  }
  return found->gr_gid;
}

void Merge(const Grant& from, Grant* to) {
  to->MergeFrom(from);
  to->clear_to();
}

// The value of one setting: of the last level that has one, there the largest. 0: none has it.
template <typename Get>
uint64_t Pick(const std::vector<std::vector<const Grant*>>& found, Get get) {
  uint64_t value = 0;
  for (const std::vector<const Grant*>& level : found) {
    uint64_t largest = 0;
    for (const Grant* grant : level) largest = std::max<uint64_t>(largest, get(*grant));
    if (largest != 0) value = largest;
  }
  return value;
}

void AddRole(int role, Rights* rights) {
  switch (role) {
    case Grant::USER:
      rights->user = true;
      break;
    case Grant::READER:
      rights->reader = true;
      break;
    case Grant::OPERATOR:
      rights->operates = true;
      break;
    default:
      break;
  }
}

}  // namespace

absl::optional<Grant::Role> ParseRole(absl::string_view text) {
  if (text == "user") return Grant::USER;
  if (text == "reader") return Grant::READER;
  if (text == "operator") return Grant::OPERATOR;
  return absl::nullopt;
}

absl::Status Policy::Add(absl::string_view who, const Grant& grant) {
  if (who == kEveryone) {
    if (!everyone_.has_value()) everyone_.emplace();
    Merge(grant, &*everyone_);
    return absl::OkStatus();
  }
  if (absl::StartsWith(who, kGroup)) {
    PTO_ASSIGN_OR_RETURN(const uint32_t number, FindGroup(absl::StripPrefix(who, kGroup)));
    Merge(grant, &groups_[number]);
    return absl::OkStatus();
  }
  const bool known_kind = absl::StartsWith(who, "uid-") || absl::StartsWith(who, "token-") ||
                          absl::StartsWith(who, "cert-") || who == "loopback";
  if (!known_kind || !names::CheckId(who, "to").ok()) {
    return Wrong(absl::StrCat(names::Quoted(who),
                              " is no principal: expected uid-NUMBER, group-NAME, token-NAME, "
                              "cert-NAME or everyone"));
  }
  Merge(grant, &principals_[std::string(who)]);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Policy>> Policy::Parse(absl::string_view file,
                                                            const std::string& text,
                                                            uint32_t own_uid) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  AccessPolicy proto;
  if (!parser.ParseFromString(text, &proto)) {
    return Error(reason::kConfigInvalid, absl::StrCat(file, ":", error.text())).With("file", file);
  }
  auto policy = std::make_shared<Policy>(own_uid);
  for (int i = 0; i < proto.grants_size(); ++i) {
    const Grant& grant = proto.grants(i);
    const auto wrong = [&](absl::string_view what) -> absl::Status {
      return Error(reason::kConfigInvalid, absl::StrCat(file, ": grants[", i, "]: ", what))
          .With("file", file);
    };
    if (grant.to().empty()) return wrong("`to` is empty, so it allows nobody anything");
    if (grant.max_weight() > kMaxWeight) {
      return wrong(absl::StrCat("max_weight is at most ", kMaxWeight));
    }
    for (const std::string& who : grant.to()) {
      if (const absl::Status added = policy->Add(who, grant); !added.ok()) {
        return wrong(added.message());
      }
    }
  }
  return std::shared_ptr<const Policy>(std::move(policy));
}

absl::StatusOr<std::shared_ptr<const Policy>> Policy::Load(const std::string& file,
                                                           uint32_t own_uid) {
  if (file.empty()) return std::make_shared<const Policy>(own_uid);
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  // Reading nothing marks the output as failed, but an empty file is a policy.
  if (in.is_open() && in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (!in.is_open() || in.bad()) {
    return Error(reason::kConfigInvalid,
                 absl::StrCat("cannot read ", file,
                              errno == 0 ? "" : ": " + std::generic_category().message(errno)))
        .With("file", file);
  }
  return Parse(file, text.str(), own_uid);
}

Rights Policy::Combine(const std::vector<std::vector<const Grant*>>& found,
                       absl::Span<const Grant::Role> more_roles, bool always_operates) const {
  Rights rights;
  rights.user = !everyone_.has_value();
  for (const std::vector<const Grant*>& level : found) {
    for (const Grant* grant : level) {
      for (const int role : grant->roles()) AddRole(role, &rights);
    }
  }
  for (const Grant::Role role : more_roles) AddRole(role, &rights);
  if (always_operates) rights.operates = true;
  if (rights.operates) {
    rights.user = true;
    rights.reader = true;
    rights.max_priority = Rights::Priority::kHigh;
  }
  switch (Pick(found, [](const Grant& grant) { return grant.max_priority(); })) {
    case Grant::LOW:
      rights.max_priority = Rights::Priority::kLow;
      break;
    case Grant::NORMAL:
      rights.max_priority = Rights::Priority::kNormal;
      break;
    case Grant::HIGH:
      rights.max_priority = Rights::Priority::kHigh;
      break;
    default:
      break;
  }
  rights.kernel_uploads = static_cast<Rights::Uploads>(
      Pick(found, [](const Grant& grant) { return grant.kernel_uploads(); }));
  const uint64_t weight = Pick(found, [](const Grant& grant) { return grant.max_weight(); });
  rights.max_weight = weight == 0 ? kMaxWeight : static_cast<uint32_t>(weight);
  rights.max_leased_chips = static_cast<uint32_t>(
      Pick(found, [](const Grant& grant) { return grant.max_leased_chips(); }));
  rights.max_sessions = Pick(found, [](const Grant& grant) { return grant.max_sessions(); });
  rights.max_device_bytes =
      Pick(found, [](const Grant& grant) { return grant.max_device_bytes(); });
  rights.max_windows = Pick(found, [](const Grant& grant) { return grant.max_windows(); });
  rights.max_active_runs = Pick(found, [](const Grant& grant) { return grant.max_active_runs(); });
  rights.max_tasks = Pick(found, [](const Grant& grant) { return grant.max_tasks(); });
  rights.max_event_log_bytes =
      Pick(found, [](const Grant& grant) { return grant.max_event_log_bytes(); });
  return rights;
}

Rights Policy::OfUser(uint32_t uid, absl::Span<const uint32_t> groups) const {
  std::vector<std::vector<const Grant*>> found;
  if (everyone_.has_value()) found.push_back({&*everyone_});
  std::vector<const Grant*> of_groups;
  for (const uint32_t group : groups) {
    if (const auto it = groups_.find(group); it != groups_.end()) of_groups.push_back(&it->second);
  }
  found.push_back(std::move(of_groups));
  if (const auto it = principals_.find(UidName(uid)); it != principals_.end()) {
    found.push_back({&it->second});
  }
  return Combine(found, {}, uid == 0 || uid == own_uid_);
}

Rights Policy::OfOther(absl::string_view name, absl::Span<const Grant::Role> roles) const {
  std::vector<std::vector<const Grant*>> found;
  if (everyone_.has_value()) found.push_back({&*everyone_});
  if (const auto it = principals_.find(std::string(name)); it != principals_.end()) {
    found.push_back({&it->second});
  }
  Rights rights = Combine(found, roles, false);
  return rights;
}

}  // namespace pto::daemon::auth
