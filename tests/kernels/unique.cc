// Variables of which a process has one instance, if they are marked as unique. VALUE and SIZE
// differ between the two objects that are made of this file.
#include <cstdint>
#include <mutex>

namespace model {

inline int32_t variable[SIZE] = {VALUE};

inline int32_t& Static() {
  static int32_t value = VALUE;
  return value;
}

inline thread_local int32_t of_thread[SIZE] = {VALUE};

}  // namespace model

namespace pto {
namespace cpu {

inline std::mutex& AtomicAddMutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace cpu
}  // namespace pto

extern "C" int32_t ReadVariable() { return model::variable[0]; }
extern "C" int32_t ReadStatic() { return model::Static()++; }
extern "C" int32_t ReadOfThread() { return model::of_thread[0]; }
extern "C" int32_t SizeOfVariable() { return sizeof model::variable; }
extern "C" void* FindMutex() { return &pto::cpu::AtomicAddMutex(); }
extern "C" void kernel_entry(int64_t*) { model::Static() += model::variable[0]; }
