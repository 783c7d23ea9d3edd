#pragma once

#include <cstddef>
#include <memory>

namespace pto::engine {

// A stack of its own, on which a function runs that can be left in the middle and gone on with
// later. One after the other, it serves any number of functions.
//
// All switches of stacks are here, with what the sanitizers and the C++ runtime have to be told.
// Below the stack is a page that nobody may touch: one that is too small is a crash, never silent.
// Memory is taken only as it is used. Not thread-safe: a function is gone on with on the thread
// that began it, since what it calls may keep thread-local state.
class Fiber {
 public:
  // A function must not let an exception out.
  using Body = void (*)(void* argument);

  // Returns nullptr when the machine has no memory for another stack.
  static std::unique_ptr<Fiber> Create();
  // It must be idle.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs `body(argument)` until it ends or suspends. The fiber must be idle.
  void Start(Body body, void* argument);
  // Goes on with what was suspended, until it ends or suspends again.
  void Resume();
  // Leaves the fiber, from inside of it, until somebody resumes it.
  void Suspend();

  // Whether there is nothing to go on with.
  bool idle() const { return idle_; }

 private:
  // What the C++ runtime keeps for each thread while exceptions are caught.
  struct Exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };

  Fiber(std::byte* mapping, std::byte* stack);
  static void Main(void* self) noexcept;
  void SwitchIn();
  void SwitchOut(bool last);

  std::byte* const mapping_;
  [[maybe_unused]] std::byte* const stack_;  // its lowest address
  void* inside_ = nullptr;
  void* outside_ = nullptr;
  Body body_ = nullptr;
  void* argument_ = nullptr;
  bool idle_ = true;
  bool quit_ = false;
  Exceptions exceptions_;

  // ---- for the sanitizers
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] const void* outside_stack_ = nullptr;
  [[maybe_unused]] size_t outside_bytes_ = 0;
  [[maybe_unused]] void* tsan_inside_ = nullptr;
  [[maybe_unused]] void* tsan_outside_ = nullptr;
};

}  // namespace pto::engine
