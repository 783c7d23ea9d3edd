#include "runtime/engine/signal/wait_board.h"

#include <algorithm>

#include "runtime/base/log.h"

namespace pto::engine {

// Readers run while writers write. With release and acquire, a reader that sees a new value of any
// field also sees that the id changed before. On x86 these are plain moves.
class WaitBoard::Place {
 public:
  void Write(const WaitNote& note, uint64_t id) {
    Store(kind_, note.kind);
    Store(run_, note.run);
    Store(task_, note.task);
    Store(block_, note.block);
    Store(chip_, note.chip);
    Store(core_, note.core);
    Store(address_, note.address);
    Store(dtype_, note.dtype);
    Store(compare_, note.compare);
    Store(value_, note.value);
    Store(copy_bytes_, note.copy_bytes);
    Store(since_ns_, note.since_ns);
    Store(until_ns_, note.until_ns);
    Store(id_, id);
  }
  void Clear() { Store(id_, uint64_t{0}); }

  // Returns false if there is no note, or if it changed meanwhile.
  bool Read(WaitNote* note) const {
    note->id = Load(id_);
    if (note->id == 0) return false;
    note->kind = Load(kind_);
    note->run = Load(run_);
    note->task = Load(task_);
    note->block = Load(block_);
    note->chip = Load(chip_);
    note->core = Load(core_);
    note->address = Load(address_);
    note->dtype = Load(dtype_);
    note->compare = Load(compare_);
    note->value = Load(value_);
    note->copy_bytes = Load(copy_bytes_);
    note->since_ns = Load(since_ns_);
    note->until_ns = Load(until_ns_);
    return Load(id_) == note->id;
  }

  Place* next_free = nullptr;

 private:
  template <typename T>
  static void Store(std::atomic<T>& field, T value) {
    field.store(value, std::memory_order_release);
  }
  template <typename T>
  static T Load(const std::atomic<T>& field) {
    return field.load(std::memory_order_acquire);
  }

  std::atomic<uint64_t> id_{0};
  std::atomic<WaitNote::Kind> kind_{};
  std::atomic<const Run*> run_{nullptr};
  std::atomic<uint32_t> task_{0}, block_{0}, chip_{0};
  std::atomic<int32_t> core_{0};
  std::atomic<const void*> address_{nullptr};
  std::atomic<uint32_t> dtype_{0}, compare_{0};
  std::atomic<int64_t> value_{0}, copy_bytes_{0}, since_ns_{0}, until_ns_{0};
};

WaitBoard::~WaitBoard() {
  for (std::atomic<Place*>& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
}

void WaitBoard::Grow() {
  PTO_CHECK(used_chunks_ < kMaxChunks, "there are too many waits");
  const size_t count = kFirstChunk << used_chunks_;
  auto* const places = new Place[count];
  for (size_t i = 0; i < count; ++i) places[i].next_free = i + 1 < count ? &places[i + 1] : free_;
  free_ = places;
  chunks_[used_chunks_++].store(places, std::memory_order_release);
}

WaitBoard::Place* WaitBoard::Add(const WaitNote& note) {
  Place* place = nullptr;
  uint64_t id = 0;
  {
    SpinLockHolder lock(lock_);
    if (free_ == nullptr) Grow();
    place = free_;
    free_ = place->next_free;
    id = next_id_++;
  }
  place->Write(note, id);
  return place;
}

void WaitBoard::Remove(Place* place) {
  place->Clear();
  SpinLockHolder lock(lock_);
  place->next_free = free_;
  free_ = place;
}

std::vector<WaitNote> WaitBoard::Read() const {
  std::vector<WaitNote> notes;
  for (size_t i = 0; i < kMaxChunks; ++i) {
    const Place* const places = chunks_[i].load(std::memory_order_acquire);
    if (places == nullptr) break;
    for (size_t j = 0; j < kFirstChunk << i; ++j) {
      WaitNote note;
      if (places[j].Read(&note)) notes.push_back(note);
    }
  }
  std::sort(notes.begin(), notes.end(),
            [](const WaitNote& a, const WaitNote& b) { return a.id < b.id; });
  return notes;
}

}  // namespace pto::engine
