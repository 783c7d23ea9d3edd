#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/model/run_record.h"
#include "daemon/names/duration.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/map.h"
#include "google/protobuf/timestamp.pb.h"

// Fields that many requests share. Errors name the field.
namespace pto::daemon {

// 0 means 100; at most 1,000.
absl::StatusOr<size_t> PageSize(int32_t page_size);

// The list that a page belongs to: the method, and the parent if there is one.
struct PageScope {
  absl::string_view method;
  absl::string_view parent;
};

// The token of the page after the object named `after`, and back. A token is valid only for its
// list: PAGE_TOKEN_INVALID.
std::string MakePageToken(const PageScope& scope, absl::string_view after);
absl::StatusOr<std::string> ParsePageToken(const PageScope& scope, absl::string_view token);

// At most 32 labels, with keys and values of at most 256 bytes.
absl::StatusOr<Labels> ParseLabels(const google::protobuf::Map<std::string, std::string>& labels,
                                   absl::string_view field);

// The reason text of a request: at most 1 KiB.
absl::Status CheckReasonText(absl::string_view text);

void SetDuration(absl::Duration from, google::protobuf::Duration* to);
void SetTimestamp(absl::Time from, google::protobuf::Timestamp* to);

}  // namespace pto::daemon
