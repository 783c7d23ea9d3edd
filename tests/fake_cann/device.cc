#include "device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "tables.h"

namespace fake {

Stream::Stream(Device& device) : device_(device), thread_([this] { Work(); }) {}

Stream::~Stream() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    aborted_ = true;
    changed_.notify_all();
  }
  thread_.join();
  for (const Operation& operation : queue_) Drop(operation);
}

void Stream::Add(Operation operation) {
  std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back(std::move(operation));
  changed_.notify_all();
}

void Stream::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    Operation operation = std::move(queue_.front());
    queue_.pop_front();
    if (error_ != 0) {  // what comes behind an error is not done
      Drop(operation);
      changed_.notify_all();
      continue;
    }
    running_ = &operation;
    lock.unlock();
    const int64_t jitter = GetSettings().jitter_us;
    if (jitter > 0) {
      random_ ^= random_ << 13;
      random_ ^= random_ >> 7;
      random_ ^= random_ << 17;
      std::this_thread::sleep_for(
          std::chrono::microseconds(random_ % static_cast<uint64_t>(jitter)));
    }
    const Fault fault = NextFault("op:" + operation.name, device_.index());
    const auto aborted = [this] { return aborted_.load(); };
    int code = 0;
    bool run = false;
    if (fault.kind == Fault::kHang) {
      while (!aborted()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    } else if (fault.kind == Fault::kKill) {
      kill(getpid(), 9);
    } else if (fault.kind == Fault::kCode || fault.kind == Fault::kPoison) {
      code = static_cast<int>(fault.value);
    } else {
      if (fault.kind == Fault::kDelay) {
        std::this_thread::sleep_for(std::chrono::milliseconds(fault.value));
      }
      SetErrorText("");
      code = operation.run(aborted);
      run = true;
    }
    if (!run) Drop(operation);
    if (aborted_ && code == 0) code = 107023;
    Trace(device_.index(), "did " + operation.name + " = " + std::to_string(code));
    const char* const text = code == 0 ? nullptr : aclGetRecentErrMsg();
    lock.lock();
    running_ = nullptr;
    if (code != 0 && error_ == 0) {
      error_ = code;
      text_ = text != nullptr ? text : "EZ9999: an operation failed: " + operation.name;
    }
    // Only now, so that whoever hears of it can find the cause.
    if (fault.kind == Fault::kPoison || code == 507014 || code == 507015) device_.Poison(code);
    changed_.notify_all();
  }
}

int Stream::Query() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (error_ != 0) {
    SetErrorText(text_);
    return error_;
  }
  return queue_.empty() && running_ == nullptr ? 0 : -1;
}

int Stream::Synchronize(int32_t ms) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto over = [this] { return error_ != 0 || (queue_.empty() && running_ == nullptr); };
  if (ms < 0) {
    changed_.wait(lock, over);
  } else if (!changed_.wait_for(lock, std::chrono::milliseconds(ms), over)) {
    return 507046;
  }
  if (error_ != 0) SetErrorText(text_);
  return error_;
}

void Stream::Abort() {
  std::unique_lock<std::mutex> lock(mutex_);
  aborted_ = true;
  for (const Operation& operation : queue_) Drop(operation);
  queue_.clear();
  changed_.notify_all();
  changed_.wait(lock, [this] { return running_ == nullptr; });
  aborted_ = false;
  error_ = 0;
}

bool Stream::busy() {
  std::lock_guard<std::mutex> lock(mutex_);
  return !queue_.empty() || running_ != nullptr;
}

bool Stream::Uses(uint64_t address, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto uses = [&](const Operation& operation) {
    for (const auto& [begin, size] : operation.ranges) {
      if (begin < address + bytes && address < begin + size) return true;
    }
    return false;
  };
  if (running_ != nullptr) {
    if (uses(*running_)) return true;
    if (running_->uses && running_->uses(address, bytes)) return true;
  }
  for (const Operation& operation : queue_) {
    if (uses(operation)) return true;
  }
  return false;
}

std::byte* MapMemoryOf(int32_t device) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const maps = new std::map<int32_t, std::byte*>;
  std::lock_guard<std::mutex> lock(*mutex);
  std::byte*& data = (*maps)[device];
  if (data != nullptr) return data;
  const std::string path = GetSettings().folder + "/hbm-" + std::to_string(device);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(GetSettings().hbm_bytes)) != 0) abort();
  void* const map = mmap(nullptr, GetSettings().hbm_bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (map == MAP_FAILED) abort();
  data = static_cast<std::byte*>(map);
  return data;
}

Device::Device(int32_t index) : index_(index) {
  data_ = MapMemoryOf(index);
  void* const wanted = reinterpret_cast<void*>(AddressOf(0));
  void* const got = mmap(wanted, GetSettings().hbm_bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != wanted) abort();
}

uint64_t Device::AddressOf(uint64_t offset) const {
  return kArena + static_cast<uint64_t>(index_) * kArenaStride + offset;
}

std::byte* Device::Bytes(uint64_t offset) { return data_ + offset; }

uint64_t Device::Take(uint64_t bytes, uint64_t align) {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t at = (kFirstOffset + align - 1) / align * align;
  int64_t used = charged_;
  for (const auto& [offset, size] : taken_) used += static_cast<int64_t>(size);
  const uint64_t total = GetSettings().hbm_bytes;
  if (static_cast<uint64_t>(used) + bytes + kFirstOffset > total) return 0;
  for (const auto& [offset, size] : taken_) {
    if (at + bytes <= offset) break;
    at = (offset + size + align - 1) / align * align;
  }
  if (at + bytes > total) return 0;
  taken_[at] = bytes;
  // Fresh memory is not zeroes.
  std::memset(data_ + at, 0xa5, bytes < 65536 ? bytes : 65536);
  return at;
}

bool Device::Give(uint64_t offset) {
  std::lock_guard<std::mutex> lock(mutex);
  return taken_.erase(offset) == 1;
}

uint64_t Device::SizeAt(uint64_t offset) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = taken_.find(offset);
  return found == taken_.end() ? 0 : found->second;
}

uint64_t Device::free_bytes() {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t used = static_cast<uint64_t>(charged_) + kFirstOffset;
  for (const auto& [offset, size] : taken_) used += size;
  return GetSettings().hbm_bytes - used;
}

bool Device::Charge(int64_t bytes) {
  if (bytes > 0 && static_cast<uint64_t>(bytes) > free_bytes()) return false;
  std::lock_guard<std::mutex> lock(mutex);
  charged_ += bytes;
  return true;
}

std::byte* Device::Translate(uint64_t address, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  const uint64_t base = AddressOf(0);
  if (address >= base && address < base + GetSettings().hbm_bytes) {
    const uint64_t offset = address - base;
    auto found = taken_.upper_bound(offset);
    if (found == taken_.begin()) return nullptr;
    --found;
    if (offset + bytes > found->first + found->second) return nullptr;
    return data_ + offset;
  }
  auto found = mappings_.upper_bound(address);
  if (found == mappings_.begin()) return nullptr;
  --found;
  const Mapping& mapping = found->second;
  if (!mapping.access || address + bytes > found->first + mapping.bytes) return nullptr;
  return MapMemoryOf(mapping.owner) + mapping.offset + (address - found->first);
}

uint64_t Device::Reserve(uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  const uint64_t address =
      kVirtualArena + static_cast<uint64_t>(index_) * kArenaStride + next_reserve_;
  void* const wanted = reinterpret_cast<void*>(address);
  if (mmap(wanted, bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != wanted) {
    return 0;
  }
  // A gap, so that what runs over the end is noticed.
  next_reserve_ += bytes + (uint64_t{2} << 20);
  reserved_[address] = bytes;
  return address;
}

bool Device::Release(uint64_t address) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = reserved_.find(address);
  if (found == reserved_.end() || mappings_.count(address) != 0) return false;
  munmap(reinterpret_cast<void*>(address), found->second);
  reserved_.erase(found);
  return true;
}

bool Device::Map(uint64_t address, const Mapping& mapping) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    const auto found = reserved_.find(address);
    if (found == reserved_.end() || found->second < mapping.bytes) return false;
    if (!mappings_.emplace(address, mapping).second) return false;
  }
  npu()->Map(address, mapping.bytes, mapping.owner, mapping.offset);
  return true;
}

bool Device::Unmap(uint64_t address) {
  uint64_t bytes = 0;
  {
    std::lock_guard<std::mutex> lock(mutex);
    const auto found = mappings_.find(address);
    if (found == mappings_.end()) return false;
    bytes = found->second.bytes;
    mappings_.erase(found);
  }
  npu()->Unmap(address, bytes);
  return true;
}

Mapping* Device::FindMapping(uint64_t address) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = mappings_.find(address);
  return found == mappings_.end() ? nullptr : &found->second;
}

void Device::Reset() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    taken_.clear();
    charged_ = 0;
    mappings_.clear();
  }
  if (npu_ != nullptr) npu_->Kill();
  npu_.reset();
  poison_ = 0;
}

std::shared_ptr<NpuLink> Device::npu() {
  std::lock_guard<std::mutex> lock(mutex);
  if (npu_ == nullptr || npu_->dead()) {
    npu_ = std::make_shared<NpuLink>(index_);
    for (const auto& [address, mapping] : mappings_) {
      npu_->Map(address, mapping.bytes, mapping.owner, mapping.offset);
    }
  }
  return npu_;
}

Device& DeviceAt(int32_t index) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const devices = new std::map<int32_t, std::unique_ptr<Device>>;
  std::lock_guard<std::mutex> lock(*mutex);
  std::unique_ptr<Device>& device = (*devices)[index];
  if (device == nullptr) device = std::make_unique<Device>(index);
  return *device;
}

bool IsDeviceAddress(uint64_t address) {
  return address >= kArena && address < kVirtualArena + 256 * kArenaStride;
}

std::byte* TranslateAny(uint64_t address, uint64_t bytes) {
  if (!IsDeviceAddress(address)) return nullptr;
  const uint64_t arena = address >= kVirtualArena ? kVirtualArena : kArena;
  const auto index = static_cast<int32_t>((address - arena) / kArenaStride);
  if (index >= GetSettings().devices) return nullptr;
  return DeviceAt(index).Translate(address, bytes);
}

}  // namespace fake
