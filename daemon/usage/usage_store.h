#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/usage/usage_counter.h"

struct sqlite3;

namespace pto::daemon {

// What a principal has used in a period.
struct PrincipalUsage {
  std::string principal;
  double core_seconds = 0;
  double memory_byte_seconds = 0;
  uint64_t runs = 0;
};

// Usage by hour and principal, in a SQLite database. Used by one thread.
class UsageStore {
 public:
  // Usage that is to be added, by hour (in hours since 1970) and principal.
  using Amounts = std::map<std::pair<int64_t, std::string>, UsageAmount>;

  // Which usage: from the hour of `begin` to that of `end`, inclusive.
  struct Query {
    absl::Time begin = absl::InfinitePast();
    absl::Time end = absl::InfiniteFuture();
    std::string principal = {};  // empty: of all
    std::string after = {};      // of all, those behind this one
    size_t limit = 0;
  };

  // An empty path: in memory. A damaged file is kept aside, with `.corrupt` behind its name, and a
  // new one begun. The newest `max_rows` are kept. Errors: PATH_UNUSABLE.
  static absl::StatusOr<std::unique_ptr<UsageStore>> Open(const std::string& path,
                                                          uint64_t max_rows = kMaxRows);
  ~UsageStore();
  UsageStore(const UsageStore&) = delete;
  UsageStore& operator=(const UsageStore&) = delete;

  // Adds all of it or nothing. When this returns it is on the disk. Errors: PATH_UNUSABLE.
  absl::Status Add(const Amounts& amounts);
  // By the names of principals.
  absl::StatusOr<std::vector<PrincipalUsage>> Find(const Query& query) const;

  // ---- runs that a boot had accepted and not added when it was killed
  // When the boot before began, its id, and how many runs of each principal it has added. The id is
  // empty if an earlier release was the boot before.
  using RunCounts = std::map<std::string, uint64_t>;  // by principal
  struct Boot {
    absl::Time start = absl::InfiniteFuture();  // as long as there was none
    std::string id = {};
    RunCounts runs = {};
  };
  absl::StatusOr<Boot> LastBoot() const;
  // A boot begins: its runs are counted from zero. Adds runs that the boot before has lost.
  absl::Status BeginBoot(absl::Time start, const std::string& id, const RunCounts& lost);

  static int64_t HourOf(absl::Time time);

 private:
  // About 60 bytes each: with 100 principals that are never idle it is more than two years.
  static constexpr uint64_t kMaxRows = 2'000'000;

  UsageStore(std::string path, sqlite3* database, uint64_t max_rows)
      : path_(std::move(path)), database_(database), max_rows_(max_rows) {}

  static absl::StatusOr<std::unique_ptr<UsageStore>> TryOpen(const std::string& path,
                                                             uint64_t max_rows, bool* damaged);
  absl::Status Prepare(bool* damaged);
  absl::Status Execute(const char* sql);
  // Does all of it or nothing.
  template <typename Do>
  absl::Status InTransaction(Do change);
  absl::Status AddRows(const Amounts& amounts);
  absl::Status AddBootRuns(const Amounts& amounts);
  absl::Status ForgetOldest();
  absl::Status Fault(absl::string_view what) const;

  const std::string path_;
  sqlite3* const database_;
  const uint64_t max_rows_;
  int code_ = 0;  // of SQLite, of the last Execute that failed
  int64_t swept_hour_ = 0;
};

}  // namespace pto::daemon
