// Fails as kernels of a chip do. The first word says how.
#include <cstdint>
#include <ctime>

extern "C" void kernel_entry(int64_t* words) {
  static volatile uintptr_t nowhere = 8;
  switch (words[0]) {
    case 0:  // an address that is no memory
      *reinterpret_cast<volatile int*>(nowhere) = 1;
      break;
    case 1:  // does not end
      while (true) {
        const timespec pause = {0, 1000000};
        nanosleep(&pause, nullptr);
      }
    case 2: {  // an address that is no memory, after a while
      const timespec pause = {0, 200000000};
      nanosleep(&pause, nullptr);
      *reinterpret_cast<volatile int*>(nowhere) = 1;
      break;
    }
    default:
      break;
  }
}
