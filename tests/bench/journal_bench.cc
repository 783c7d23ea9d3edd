// journal_bench: what it costs to remember a run, by the daemon's journal and by a SQLite database.
// See daemon/journal/README.md.

#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/journal/journal.h"

namespace pto::bench {
namespace {

// Commits that wait for a disk take thousands of times as long.
constexpr int kFast = 20'000;
constexpr int kSynced = 300;
constexpr int kRecordBytes = 112;

double Micros() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Measure(const char* name, const char* survives, int count,
             const std::function<bool(int)>& add) {
  std::vector<double> times;
  double all = 0;
  for (int i = 0; i < count; ++i) {
    const double begin = Micros();
    if (!add(i)) {
      std::printf("%-34s failed\n", name);
      return;
    }
    times.push_back(Micros() - begin);
    all += times.back();
  }
  std::sort(times.begin(), times.end());
  std::printf("%-34s %-16s p50 %9.1f us  p99 %9.1f us  mean %9.1f us\n", name, survives,
              times[times.size() / 2], times[times.size() * 99 / 100], all / count);
}

void MeasureJournal(const std::string& directory, bool sync) {
  daemon::Journal::Options options;
  options.directory = directory;
  options.boot_id = "bench";
  options.sync_interval = absl::Hours(1);
  const auto opened = daemon::Journal::Open(std::move(options));
  if (!opened.ok()) return (void)std::printf("%s\n", opened.status().ToString().c_str());
  daemon::Journal& journal = **opened;
  if (!journal.AddSession("s", "uid-1000").ok()) return;
  journal::v1::RunRecord run;
  run.set_session("s");
  run.set_digest_high(1);
  run.set_digest_low(2);
  Measure(sync ? "journal, and a sync" : "journal", sync ? "a power failure" : "kill -9",
          sync ? kSynced : kFast, [&](int i) {
            run.set_id("run-" + std::to_string(i));
            return journal.AddRun(run).ok() && (!sync || journal.Sync().ok());
          });
}

void MeasureSqlite(const std::string& directory, bool full) {
  sqlite3* database = nullptr;
  sqlite3_stmt* insert = nullptr;
  const std::string path = directory + (full ? "/full.db" : "/normal.db");
  const std::string setup =
      std::string(
          "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = ") +
      (full ? "FULL" : "NORMAL") +
      "; CREATE TABLE runs (name TEXT PRIMARY KEY, record BLOB) WITHOUT ROWID;";
  const bool ready =
      sqlite3_open(path.c_str(), &database) == SQLITE_OK &&
      sqlite3_exec(database, setup.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK &&
      sqlite3_prepare_v2(database, "INSERT INTO runs VALUES (?1, ?2)", -1, &insert, nullptr) ==
          SQLITE_OK;
  const std::string record(kRecordBytes, 'x');
  if (ready) {
    Measure(full ? "SQLite, WAL, synchronous=FULL" : "SQLite, WAL, synchronous=NORMAL",
            full ? "a power failure" : "kill -9", full ? kSynced : kFast, [&](int i) {
              const std::string name = "s/run-" + std::to_string(i);
              sqlite3_bind_text(insert, 1, name.data(), static_cast<int>(name.size()),
                                SQLITE_STATIC);
              sqlite3_bind_blob(insert, 2, record.data(), kRecordBytes, SQLITE_STATIC);
              const bool done = sqlite3_step(insert) == SQLITE_DONE;
              sqlite3_reset(insert);
              return done;
            });
  }
  sqlite3_finalize(insert);
  sqlite3_close(database);
}

int Main(const char* where) {
  std::string directory = std::string(where) + "/journal_bench-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) {
    std::fprintf(stderr, "journal_bench: cannot make a directory in %s\n", where);
    return 1;
  }
  for (const bool sync : {false, true}) {
    const std::string own = directory + (sync ? "/synced" : "/fast");
    std::filesystem::create_directory(own);
    MeasureJournal(own, sync);
    MeasureSqlite(directory, sync);
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  return 0;
}

}  // namespace
}  // namespace pto::bench

int main(int argc, char** argv) { return pto::bench::Main(argc > 1 ? argv[1] : "."); }
