#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/journal/storage.h"
#include "runtime/base/mutex.h"

namespace pto::daemon::testing {

// A directory in memory. It knows what of it would be on a disk: the blocks of a file as of its
// last sync that succeeded, and names as of the last sync of the directory. Like on Linux, a sync
// that fails leaves blocks that no later sync writes. Thread-safe.
class MemoryStorage final : public Storage {
 public:
  static constexpr uint64_t kBlockBytes = 4096;

  absl::StatusOr<std::shared_ptr<WritableFile>> Create(const std::string& name,
                                                       uint64_t reserve_bytes) override;
  absl::StatusOr<std::string> Read(const std::string& name) override;
  absl::StatusOr<std::vector<std::string>> List() override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& name) override;
  absl::Status SyncNames() override;
  std::string Path(const std::string& name) const override { return "memory/" + name; }

  // ---- failures
  // Each sync fails with this probability, in percent.
  void FailSyncs(int percent);
  // So many bytes can be written from now on.
  void SetRoom(uint64_t bytes);
  // After so many changes, writes and syncs from now on all fail, as if the process had ended.
  // Negative: never.
  void StopAfter(int64_t operations);
  bool stopped() const;
  // How many there were.
  int64_t operations() const;

  // ---- restarts
  // The process has been killed: a storage with what the system has.
  std::shared_ptr<MemoryStorage> AfterKill() const;
  // The machine has lost its power: of each block that was not synced the disk has the old or the
  // new version, by chance, and of the names some of the first changes.
  std::shared_ptr<MemoryStorage> AfterPowerCut(uint32_t seed) const;

  // ---- what a test does to files
  void Put(const std::string& name, std::string bytes);
  std::string Get(const std::string& name) const;

 private:
  struct Inode {
    std::string bytes;
    std::string disk;          // as of the last sync that succeeded
    std::set<uint64_t> dirty;  // blocks that differ and that the next sync writes
    std::set<uint64_t> lost;   // blocks that differ and that no sync writes
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;
  class File;

  absl::Status Step(absl::string_view what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool SyncFails() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Names names_ ABSL_GUARDED_BY(mutex_);
  Names disk_names_ ABSL_GUARDED_BY(mutex_);
  // Changes of names since.
  std::vector<std::function<void(Names&)>> changes_ ABSL_GUARDED_BY(mutex_);
  std::mt19937 random_ ABSL_GUARDED_BY(mutex_){1};
  int fail_percent_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t room_ ABSL_GUARDED_BY(mutex_) = uint64_t{1} << 40;
  int64_t stop_after_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace pto::daemon::testing
