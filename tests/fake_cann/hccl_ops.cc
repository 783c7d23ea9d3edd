// Operators of the fake HCCL: libhccl.so. Each is an operation of a stream that completes when all
// ranks have got to it.

#include <cstring>
#include <vector>

#include "hccl.h"
#include "tables.h"

using namespace fake;

namespace {

enum Command : int32_t {
  kBroadcastCmd = 1,
  kAllReduceCmd,
  kAllGatherCmd,
  kReduceScatterCmd,
  kAllToAllVCmd,
  kBarrierCmd
};

uint64_t SizeOf(int type) {
  switch (type) {
    case table::kInt8:
    case table::kUint8:
      return 1;
    case table::kInt16:
    case table::kUint16:
    case table::kFp16:
    case table::kBfp16:
      return 2;
    case table::kInt32:
    case table::kUint32:
    case table::kFp32:
      return 4;
    case table::kInt64:
    case table::kUint64:
    case table::kFp64:
      return 8;
    default:
      return 0;
  }
}

template <typename T>
void Combine(std::byte* into, const std::byte* from, uint64_t count, int op) {
  auto* const a = reinterpret_cast<T*>(into);
  const auto* const b = reinterpret_cast<const T*>(from);
  for (uint64_t i = 0; i < count; ++i) {
    switch (op) {
      case table::kSum:
        a[i] = static_cast<T>(a[i] + b[i]);
        break;
      case table::kProd:
        a[i] = static_cast<T>(a[i] * b[i]);
        break;
      case table::kMax:
        a[i] = a[i] < b[i] ? b[i] : a[i];
        break;
      default:
        a[i] = b[i] < a[i] ? b[i] : a[i];
        break;
    }
  }
}

bool CombineAs(int type, std::byte* into, const std::byte* from, uint64_t count, int op) {
  switch (type) {
    case table::kInt8:
      return Combine<int8_t>(into, from, count, op), true;
    case table::kInt16:
      return Combine<int16_t>(into, from, count, op), true;
    case table::kInt32:
      return Combine<int32_t>(into, from, count, op), true;
    case table::kInt64:
      return Combine<int64_t>(into, from, count, op), true;
    case table::kFp32:
      return Combine<float>(into, from, count, op), true;
    default:
      return false;  // A2 and A3 reduce no other
  }
}

struct Part {
  Command command;
  uint64_t count = 0;
  int type = 0;
  int op = 0;
  uint32_t root = 0;
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t to_bytes = 0;
  std::vector<uint64_t> counts, places;  // of all to all: what this rank sends
  std::vector<uint64_t> to_places;
};

// Computes what this rank receives; empty: nothing.
std::vector<std::byte> Compute(const Communicator& comm, const Part& part, int* code) {
  const uint64_t size = SizeOf(part.type);
  std::vector<std::byte> result(part.to_bytes);
  const auto slot = [&](uint32_t rank) -> RankSlot& { return comm.file->slots[rank]; };
  const auto bytes_of = [&](uint32_t rank, uint64_t at, uint64_t bytes) -> const std::byte* {
    // The address is one of the other device, whose allocations this process does not know.
    const uint64_t offset = slot(rank).from - DeviceAt(slot(rank).device).AddressOf(0) + at;
    if (slot(rank).from >= kVirtualArena) return TranslateAny(slot(rank).from + at, bytes);
    return MapMemoryOf(slot(rank).device) + offset;
  };
  switch (part.command) {
    case kBarrierCmd:
      return {};
    case kBroadcastCmd:
      memcpy(result.data(), bytes_of(part.root, 0, part.to_bytes), part.to_bytes);
      return result;
    case kAllGatherCmd:
      for (uint32_t r = 0; r < comm.ranks; ++r) {
        memcpy(result.data() + r * part.count * size, bytes_of(r, 0, part.count * size),
               part.count * size);
      }
      return result;
    case kAllReduceCmd:
    case kReduceScatterCmd: {
      const uint64_t at = part.command == kReduceScatterCmd ? comm.rank * part.count * size : 0;
      memcpy(result.data(), bytes_of(0, at, part.to_bytes), part.to_bytes);
      for (uint32_t r = 1; r < comm.ranks; ++r) {
        if (!CombineAs(part.type, result.data(), bytes_of(r, at, part.to_bytes), part.count,
                       part.op)) {
          *code = 507018;
        }
      }
      return result;
    }
    case kAllToAllVCmd:
      for (uint32_t r = 0; r < comm.ranks; ++r) {
        const uint64_t bytes = slot(r).counts[comm.rank] * size;
        const uint64_t to = part.to_places[r] * size;
        if (to + bytes > result.size()) {
          *code = 507018;
          return {};
        }
        memcpy(result.data() + to, bytes_of(r, slot(r).places[comm.rank] * size, bytes), bytes);
      }
      return result;
  }
  return {};
}

bool Await(const Communicator& comm, std::atomic<uint64_t> RankSlot::* what, uint64_t number,
           const std::function<bool()>& aborted, int* code) {
  const auto until = std::chrono::steady_clock::now() + Scaled(comm.exec_timeout_s);
  for (uint32_t rank = 0; rank < comm.ranks; ++rank) {
    while ((comm.file->slots[rank].*what).load() < number) {
      if (aborted()) {
        *code = 107023;
        return false;
      }
      if (std::chrono::steady_clock::now() > until) {
        SetErrorText("EI0002: a notify did not come, rank " + std::to_string(rank));
        *code = 507048;
        return false;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return true;
}

int Add(Call& call, void* handle, void* stream, Part part) {
  CheckThread("an operator of HCCL");
  if (call.fault() != 0) return call.End(call.fault());
  Communicator& comm = CheckCommunicator(handle);
  if (CurrentDevice() != comm.device) return call.End(15, "EI9999: another device");
  if (comm.device->poison() != 0) return call.End(15, "EI9999: the device has failed");
  Stream* const into = CheckStream(stream);
  if (into == nullptr) return call.End(15, "EI9999: no such stream");
  if (part.command != kBarrierCmd && SizeOf(part.type) == 0) return call.End(5);
  const uint64_t number = ++comm.operations;
  ++comm.pending;
  const uint64_t to = part.to;
  const uint64_t bytes = part.to_bytes;
  into->Add({"collective",
             [&comm, number, part = std::move(part)](const std::function<bool()>& aborted) {
               RankSlot& own = comm.file->slots[comm.rank];
               own.command = part.command;
               own.type = part.type;
               own.op = part.op;
               own.root = part.root;
               own.count = part.count;
               own.from = part.from;
               for (size_t i = 0; i < part.counts.size(); ++i) {
                 own.counts[i] = part.counts[i];
                 own.places[i] = part.places[i];
               }
               own.arrived.store(number);
               int code = 0;
               std::vector<std::byte> result;
               if (Await(comm, &RankSlot::arrived, number, aborted, &code)) {
                 for (uint32_t r = 0; r < comm.ranks; ++r) {
                   const RankSlot& other = comm.file->slots[r];
                   const bool same = other.command == own.command && other.type == own.type &&
                                     other.op == own.op && other.root == own.root &&
                                     (other.count == own.count || own.command == kAllToAllVCmd);
                   if (!same) {
                     SetErrorText("EI0005: the arguments of rank " + std::to_string(r) + " differ");
                     comm.async_error = 1;
                     code = 507018;
                   }
                 }
                 if (code == 0) result = Compute(comm, part, &code);
                 own.left.store(number);
                 int ignored = 0;
                 const bool all =
                     Await(comm, &RankSlot::left, number, aborted, code == 0 ? &code : &ignored);
                 if (all && code == 0 && !result.empty()) {
                   std::byte* const place = TranslateAny(part.to, result.size());
                   if (place != nullptr) memcpy(place, result.data(), result.size());
                 }
               }
               --comm.pending;
               return code;
             },
             {{to, bytes}},
             [&comm] { --comm.pending; }});
  return call.End(0);
}

uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace

FAKE_EXPORT int HcclAllReduce(void* from, void* to, uint64_t count, int type, int op, void* comm,
                              void* stream) {
  Call call("HcclAllReduce", CurrentIndex(), std::to_string(count));
  Part part{kAllReduceCmd,        count, type, op, 0, Address(from), Address(to),
            count * SizeOf(type), {},    {},   {}};
  return Add(call, comm, stream, std::move(part));
}

FAKE_EXPORT int HcclBroadcast(void* data, uint64_t count, int type, uint32_t root, void* comm,
                              void* stream) {
  Call call("HcclBroadcast", CurrentIndex(), std::to_string(count));
  Part part{kBroadcastCmd,        count, type, 0, root, Address(data), Address(data),
            count * SizeOf(type), {},    {},   {}};
  return Add(call, comm, stream, std::move(part));
}

FAKE_EXPORT int HcclAllGather(void* from, void* to, uint64_t count, int type, void* comm,
                              void* stream) {
  Call call("HcclAllGather", CurrentIndex(), std::to_string(count));
  const uint64_t bytes = count * SizeOf(type) * CheckCommunicator(comm).ranks;
  Part part{kAllGatherCmd, count, type, 0, 0, Address(from), Address(to), bytes, {}, {}, {}};
  return Add(call, comm, stream, std::move(part));
}

FAKE_EXPORT int HcclReduceScatter(void* from, void* to, uint64_t count, int type, int op,
                                  void* comm, void* stream) {
  Call call("HcclReduceScatter", CurrentIndex(), std::to_string(count));
  Part part{kReduceScatterCmd,    count, type, op, 0, Address(from), Address(to),
            count * SizeOf(type), {},    {},   {}};
  return Add(call, comm, stream, std::move(part));
}

FAKE_EXPORT int HcclAlltoAllV(const void* from, const void* from_counts, const void* from_places,
                              int from_type, const void* to, const void* to_counts,
                              const void* to_places, int, void* comm, void* stream) {
  Call call("HcclAlltoAllV", CurrentIndex());
  const uint32_t ranks = CheckCommunicator(comm).ranks;
  Part part{kAllToAllVCmd, 0, from_type, 0, 0, Address(from), Address(to), 0, {}, {}, {}};
  for (uint32_t r = 0; r < ranks; ++r) {
    part.counts.push_back(table::Field<uint64_t>(from_counts, r * 8));
    part.places.push_back(table::Field<uint64_t>(from_places, r * 8));
    part.to_places.push_back(table::Field<uint64_t>(to_places, r * 8));
    const uint64_t end =
        (part.to_places.back() + table::Field<uint64_t>(to_counts, r * 8)) * SizeOf(from_type);
    part.to_bytes = std::max(part.to_bytes, end);
  }
  return Add(call, comm, stream, std::move(part));
}

FAKE_EXPORT int HcclBarrier(void* comm, void* stream) {
  Call call("HcclBarrier", CurrentIndex());
  Part part{kBarrierCmd, 0, 0, 0, 0, 0, 0, 0, {}, {}, {}};
  return Add(call, comm, stream, std::move(part));
}
