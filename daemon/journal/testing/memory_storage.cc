#include "daemon/journal/testing/memory_storage.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::daemon::testing {
namespace {

absl::Status Fails(absl::string_view what) {
  return Error(reason::kPathUnusable, absl::StrCat("cannot ", what, ": a test"));
}

}  // namespace

class MemoryStorage::File final : public WritableFile {
 public:
  File(MemoryStorage* storage, std::shared_ptr<Inode> inode)
      : storage_(*storage), inode_(std::move(inode)) {}

  absl::Status WriteAt(uint64_t offset, absl::string_view bytes) override {
    MutexLock lock(storage_.mutex_);
    if (absl::Status step = storage_.Step("write"); !step.ok()) return step;
    const uint64_t some = std::min<uint64_t>(bytes.size(), storage_.room_);
    storage_.room_ -= some;
    if (inode_->bytes.size() < offset + some) inode_->bytes.resize(offset + some);
    std::copy_n(bytes.begin(), some, inode_->bytes.begin() + static_cast<ptrdiff_t>(offset));
    Touch(offset, offset + some);
    return some == bytes.size() ? absl::OkStatus() : Fails("write: no space");
  }

  absl::Status Truncate(uint64_t bytes) override {
    MutexLock lock(storage_.mutex_);
    if (absl::Status step = storage_.Step("truncate"); !step.ok()) return step;
    const uint64_t before = inode_->bytes.size();
    inode_->bytes.resize(bytes);
    Touch(std::min(before, bytes), std::max(before, bytes));
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    MutexLock lock(storage_.mutex_);
    if (absl::Status step = storage_.Step("sync"); !step.ok()) return step;
    Inode& inode = *inode_;
    if (storage_.SyncFails()) {
      inode.lost.insert(inode.dirty.begin(), inode.dirty.end());
      inode.dirty.clear();
      return Fails("sync");
    }
    inode.disk.resize(inode.bytes.size());
    for (const uint64_t block : inode.dirty) {
      const uint64_t begin = block * kBlockBytes;
      if (begin >= inode.bytes.size()) continue;
      inode.disk.replace(begin, std::min(kBlockBytes, inode.bytes.size() - begin),
                         inode.bytes.substr(begin, kBlockBytes));
    }
    inode.dirty.clear();
    return absl::OkStatus();
  }

 private:
  void Touch(uint64_t begin, uint64_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(storage_.mutex_) {
    for (uint64_t at = begin / kBlockBytes; at * kBlockBytes < end; ++at) {
      inode_->dirty.insert(at);
      inode_->lost.erase(at);
    }
  }

  MemoryStorage& storage_;
  const std::shared_ptr<Inode> inode_;
};

absl::Status MemoryStorage::Step(absl::string_view what) {
  ++operations_;
  if (stop_after_ == 0) return Fails(what);
  if (stop_after_ > 0) --stop_after_;
  return absl::OkStatus();
}

bool MemoryStorage::SyncFails() {
  return fail_percent_ > 0 && static_cast<int>(random_() % 100) < fail_percent_;
}

absl::StatusOr<std::shared_ptr<WritableFile>> MemoryStorage::Create(const std::string& name,
                                                                    uint64_t) {
  MutexLock lock(mutex_);
  if (absl::Status step = Step("create"); !step.ok()) return step;
  auto inode = std::make_shared<Inode>();
  const auto change = [name, inode](Names& names) { names[name] = inode; };
  change(names_);
  changes_.emplace_back(change);
  return std::make_shared<File>(this, std::move(inode));
}

absl::StatusOr<std::string> MemoryStorage::Read(const std::string& name) {
  MutexLock lock(mutex_);
  const auto it = names_.find(name);
  if (it == names_.end()) return Fails("read");
  return it->second->bytes;
}

absl::StatusOr<std::vector<std::string>> MemoryStorage::List() {
  MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, inode] : names_) names.push_back(name);
  return names;
}

absl::Status MemoryStorage::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(mutex_);
  if (absl::Status step = Step("rename"); !step.ok()) return step;
  if (names_.count(from) == 0) return Fails("rename");
  const auto change = [from, to](Names& names) {
    names[to] = names[from];
    names.erase(from);
  };
  change(names_);
  changes_.emplace_back(change);
  return absl::OkStatus();
}

absl::Status MemoryStorage::Remove(const std::string& name) {
  MutexLock lock(mutex_);
  if (absl::Status step = Step("remove"); !step.ok()) return step;
  const auto change = [name](Names& names) { names.erase(name); };
  change(names_);
  changes_.emplace_back(change);
  return absl::OkStatus();
}

absl::Status MemoryStorage::SyncNames() {
  MutexLock lock(mutex_);
  if (absl::Status step = Step("sync"); !step.ok()) return step;
  if (SyncFails()) return Fails("sync");
  disk_names_ = names_;
  changes_.clear();
  return absl::OkStatus();
}

void MemoryStorage::FailSyncs(int percent) {
  MutexLock lock(mutex_);
  fail_percent_ = percent;
}

void MemoryStorage::SetRoom(uint64_t bytes) {
  MutexLock lock(mutex_);
  room_ = bytes;
}

void MemoryStorage::StopAfter(int64_t operations) {
  MutexLock lock(mutex_);
  stop_after_ = operations;
}

bool MemoryStorage::stopped() const {
  MutexLock lock(mutex_);
  return stop_after_ == 0;
}

int64_t MemoryStorage::operations() const {
  MutexLock lock(mutex_);
  return operations_;
}

std::shared_ptr<MemoryStorage> MemoryStorage::AfterKill() const {
  auto after = std::make_shared<MemoryStorage>();
  MutexLock lock(mutex_);
  for (const auto& [name, inode] : names_) after->Put(name, inode->bytes);
  return after;
}

std::shared_ptr<MemoryStorage> MemoryStorage::AfterPowerCut(uint32_t seed) const {
  std::mt19937 random(seed);
  auto after = std::make_shared<MemoryStorage>();
  MutexLock lock(mutex_);
  Names names = disk_names_;
  // The file system's own journal keeps their order.
  const size_t changes = random() % (changes_.size() + 1);
  for (size_t i = 0; i < changes; ++i) changes_[i](names);
  for (const auto& [name, inode] : names) {
    std::string bytes = inode->disk;
    std::set<uint64_t> blocks = inode->dirty;
    blocks.insert(inode->lost.begin(), inode->lost.end());
    // A lost block was written by nobody.
    for (const uint64_t block : blocks) {
      const uint64_t begin = block * kBlockBytes;
      if (begin >= inode->bytes.size() || inode->lost.count(block) > 0 || random() % 2 == 0)
        continue;
      const uint64_t size = std::min(kBlockBytes, inode->bytes.size() - begin);
      // The block before may not have been written: then it is zeros.
      if (bytes.size() < begin + size) bytes.resize(begin + size);
      bytes.replace(begin, size, inode->bytes.substr(begin, size));
    }
    after->Put(name, std::move(bytes));
  }
  return after;
}

void MemoryStorage::Put(const std::string& name, std::string bytes) {
  auto inode = std::make_shared<Inode>();
  inode->disk = bytes;
  inode->bytes = std::move(bytes);
  MutexLock lock(mutex_);
  names_[name] = disk_names_[name] = std::move(inode);
}

std::string MemoryStorage::Get(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto it = names_.find(name);
  return it == names_.end() ? "" : it->second->bytes;
}

}  // namespace pto::daemon::testing
