#include "daemon/usage/usage_store.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/usage/statement.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// The version of the tables, in the database's `user_version`.
constexpr int kVersion = 1;
constexpr int kMaxCopies = 4;

constexpr char kTables[] = R"(
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS usage (
  hour INTEGER NOT NULL, principal TEXT NOT NULL, core_ns INTEGER NOT NULL,
  memory_byte_seconds INTEGER NOT NULL, runs INTEGER NOT NULL,
  PRIMARY KEY (principal, hour)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS boot (start_ns INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS boot_ids (start_ns INTEGER PRIMARY KEY, id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS boot_runs (
  principal TEXT PRIMARY KEY, runs INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 1;
COMMIT;)";

constexpr char kAdd[] = R"(
INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (principal, hour) DO UPDATE SET core_ns = core_ns + ?3,
  memory_byte_seconds = memory_byte_seconds + ?4, runs = runs + ?5)";

constexpr char kAddRuns[] = R"(
INSERT INTO boot_runs VALUES (?1, ?2)
ON CONFLICT (principal) DO UPDATE SET runs = runs + ?2)";

// As floating-point numbers: a sum of integers that is too large is an error. Each reads only rows
// of the principals that it returns.
constexpr char kFindAll[] = R"(
SELECT principal, TOTAL(core_ns), TOTAL(memory_byte_seconds), SUM(runs) FROM usage
WHERE principal > ?1 AND hour BETWEEN ?2 AND ?3 GROUP BY principal ORDER BY principal LIMIT ?4)";
constexpr char kFindOne[] = R"(
SELECT principal, TOTAL(core_ns), TOTAL(memory_byte_seconds), SUM(runs) FROM usage
WHERE principal = ?1 AND hour BETWEEN ?2 AND ?3 GROUP BY principal LIMIT ?4)";

// Whole hours, so that none is there in part.
constexpr char kForget[] = R"(
DELETE FROM usage WHERE hour <= (SELECT hour FROM usage ORDER BY hour DESC LIMIT 1 OFFSET ?1))";

// The file of a database that cannot be used, and those that belong to it.
bool MoveAside(const std::string& path) {
  for (int i = 1; i <= kMaxCopies; ++i) {
    const std::string copy = absl::StrCat(path, ".corrupt", i == 1 ? "" : absl::StrCat(".", i));
    if (std::FILE* const exists = std::fopen(copy.c_str(), "r"); exists != nullptr) {
      std::fclose(exists);
      if (i < kMaxCopies) continue;
    }
    if (std::rename(path.c_str(), copy.c_str()) != 0) return false;
    // Without its database a log must not be applied to another one.
    std::rename(absl::StrCat(path, "-wal").c_str(), absl::StrCat(copy, "-wal").c_str());
    PTO_LOG(kError, "the record of usage is damaged and was kept aside; a new one begins",
            {{"file", path}, {"copy", copy}});
    return true;
  }
  return false;
}

bool IsDamage(int code) {
  return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

int64_t Bounded(uint64_t value) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(value, kMost));
}

}  // namespace

int64_t UsageStore::HourOf(absl::Time time) {
  const int64_t seconds = absl::ToUnixSeconds(time);
  constexpr int64_t kHour = 3600;
  return seconds / kHour - (seconds % kHour < 0 ? 1 : 0);
}

absl::Status UsageStore::Fault(absl::string_view what) const {
  return Error(reason::kPathUnusable, absl::StrCat("cannot ", what, " the record of usage",
                                                   path_.empty() ? "" : absl::StrCat(" in ", path_),
                                                   ": ", sqlite3_errmsg(database_)))
      .With("path", path_);
}

absl::Status UsageStore::Execute(const char* sql) {
  if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) {
    return absl::OkStatus();
  }
  absl::Status fault = Fault("write");
  code_ = sqlite3_errcode(database_);
  // Does nothing when no transaction is open.
  sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  return fault;
}

absl::Status UsageStore::Prepare(bool* damaged) {
  // The daemon owns its state directory, so nobody else reads the file while it runs.
  absl::Status status = Execute(
      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
      "PRAGMA journal_size_limit = 4194304;");
  if (status.ok()) {
    Statement version(database_, "PRAGMA user_version");
    if (version.Step() && version.Integer(0) > kVersion) {
      return Error(reason::kPathUnusable,
                   absl::StrCat(path_, " was written by a later release of ptod"))
          .With("path", path_);
    }
    Statement check(database_, "PRAGMA quick_check(1)");
    const bool read = check.Step();
    if (!read) {
      // What cannot be read now may be whole.
      *damaged = IsDamage(sqlite3_errcode(database_));
      return Fault("read");
    }
    if (check.Text(0) != "ok") {
      *damaged = true;
      return Error(reason::kPathUnusable,
                   absl::StrCat("the record of usage in ", path_, " is damaged: ", check.Text(0)))
          .With("path", path_);
    }
    status = Execute(kTables);
  }
  *damaged = !status.ok() && IsDamage(code_);
  return status;
}

absl::StatusOr<std::unique_ptr<UsageStore>> UsageStore::TryOpen(const std::string& path,
                                                                uint64_t max_rows, bool* damaged) {
  sqlite3* database = nullptr;
  const int result =
      sqlite3_open_v2(path.empty() ? ":memory:" : path.c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<UsageStore> store(new UsageStore(path, database, max_rows));
  if (result != SQLITE_OK) return store->Fault("open");
  PTO_RETURN_IF_ERROR(store->Prepare(damaged));
  return store;
}

absl::StatusOr<std::unique_ptr<UsageStore>> UsageStore::Open(const std::string& path,
                                                             uint64_t max_rows) {
  bool damaged = false;
  absl::StatusOr<std::unique_ptr<UsageStore>> store = TryOpen(path, max_rows, &damaged);
  if (store.ok() || !damaged || !MoveAside(path)) return store;
  return TryOpen(path, max_rows, &damaged);
}

UsageStore::~UsageStore() { sqlite3_close_v2(database_); }

template <typename Do>
absl::Status UsageStore::InTransaction(Do change) {
  PTO_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::Status status = change();
  if (status.ok()) return Execute("COMMIT");
  sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  return status;
}

absl::Status UsageStore::Add(const Amounts& amounts) {
  if (amounts.empty()) return absl::OkStatus();
  return InTransaction([&]() -> absl::Status {
    PTO_RETURN_IF_ERROR(AddRows(amounts));
    return AddBootRuns(amounts);
  });
}

absl::Status UsageStore::AddRows(const Amounts& amounts) {
  Statement add(database_, kAdd);
  for (const auto& [key, amount] : amounts) {
    add.Bind(1, key.first);
    add.Bind(2, key.second);
    add.Bind(3, Bounded(amount.core_ns));
    add.Bind(4, Bounded(amount.memory_byte_seconds));
    add.Bind(5, Bounded(amount.runs));
    if (!add.Run()) return Fault("write");
  }
  if (amounts.empty()) return absl::OkStatus();
  // Once an hour: it goes through all that is kept.
  const int64_t hour = amounts.rbegin()->first.first;
  if (hour == swept_hour_) return absl::OkStatus();
  swept_hour_ = hour;
  return ForgetOldest();
}

absl::Status UsageStore::AddBootRuns(const Amounts& amounts) {
  Statement add(database_, kAddRuns);
  for (const auto& [key, amount] : amounts) {
    if (amount.runs == 0) continue;
    add.Bind(1, key.second);
    add.Bind(2, Bounded(amount.runs));
    if (!add.Run()) return Fault("write");
  }
  return absl::OkStatus();
}

absl::Status UsageStore::ForgetOldest() {
  Statement count(database_, "SELECT COUNT(*) FROM usage");
  if (count.Step() && count.Integer(0) <= Bounded(max_rows_)) return absl::OkStatus();
  Statement forget(database_, kForget);
  forget.Bind(1, Bounded(max_rows_));
  return forget.Run() ? absl::OkStatus() : Fault("write");
}

absl::StatusOr<std::vector<PrincipalUsage>> UsageStore::Find(const Query& query) const {
  Statement find(database_, query.principal.empty() ? kFindAll : kFindOne);
  find.Bind(1, query.principal.empty() ? query.after : query.principal);
  find.Bind(2, HourOf(query.begin));
  find.Bind(3, HourOf(query.end));
  find.Bind(4, Bounded(query.limit));
  std::vector<PrincipalUsage> found;
  while (find.Step()) {
    PrincipalUsage& usage = found.emplace_back();
    usage.principal = find.Text(0);
    usage.core_seconds = find.Real(1) / 1e9;
    usage.memory_byte_seconds = find.Real(2);
    usage.runs = static_cast<uint64_t>(find.Integer(3));
  }
  if (!find.ok()) return Fault("read");
  return found;
}

absl::StatusOr<UsageStore::Boot> UsageStore::LastBoot() const {
  Boot boot;
  // An earlier release changes only `boot`: then no id fits.
  Statement start(
      database_, "SELECT start_ns, COALESCE(id, '') FROM boot LEFT JOIN boot_ids USING (start_ns)");
  if (start.Step()) {
    boot.start = absl::FromUnixNanos(start.Integer(0));
    boot.id = start.Text(1);
  }
  Statement runs(database_, "SELECT principal, runs FROM boot_runs");
  while (runs.Step()) boot.runs[runs.Text(0)] = static_cast<uint64_t>(runs.Integer(1));
  if (!start.ok() || !runs.ok()) return Fault("read");
  return boot;
}

absl::Status UsageStore::BeginBoot(absl::Time start, const std::string& id, const RunCounts& lost) {
  Amounts amounts;
  for (const auto& [principal, runs] : lost) amounts[{HourOf(start), principal}].runs = runs;
  return InTransaction([&]() -> absl::Status {
    PTO_RETURN_IF_ERROR(AddRows(amounts));
    PTO_RETURN_IF_ERROR(Execute("DELETE FROM boot; DELETE FROM boot_ids; DELETE FROM boot_runs"));
    Statement begin(database_, "INSERT INTO boot VALUES (?1)");
    begin.Bind(1, absl::ToUnixNanos(start));
    if (!begin.Run()) return Fault("write");
    if (id.empty()) return absl::OkStatus();
    Statement name(database_, "INSERT INTO boot_ids VALUES (?1, ?2)");
    name.Bind(1, absl::ToUnixNanos(start));
    name.Bind(2, id);
    return name.Run() ? absl::OkStatus() : Fault("write");
  });
}

}  // namespace pto::daemon
