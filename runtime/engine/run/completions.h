#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace pto::engine {

class Completions;

// What happens when a run has ended, in this order. This is the only place that defines it.
//
// 1. kJournal: the run gives back what it used (buffers, domains, quota), its record is complete,
//    and its end is in the journal. Nobody sees the end yet.
// 2. kEvents: its last events are in the log, its status is final, and the session does not count
//    it any more.
// 3. kResponses: the calls that wait for it are answered.
// 4. kSuccessors: it gives up its place. Runs that use a domain that it has revoked are stopped,
//    and runs whose turn has come begin.
//
// So a client that learns of the end finds the buffers free and the domains revoked; an answer
// comes after the events that it refers to; and no later run overtakes an answer. One exception: a
// launch stream whose own thread has ended the run sends the answer between steps 1 and 2, to save
// the client that time.
enum class CompletionStep : uint8_t { kJournal, kEvents, kResponses, kSuccessors };

// One thing to do when something has ended: a link of a list of Completions. It must live until
// Complete is called, and can be in one list at a time.
class Completion {
 public:
  Completion() = default;
  virtual ~Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  // Does one step. What follows from it is added to `completions`, and never done in here. May
  // destroy this object.
  virtual void Complete(CompletionStep step, Completions& completions) = 0;

 private:
  friend class Completions;
  Completion* next_ = nullptr;
};

// The completion queue of one thread: the steps of the runs that it has ended, and of all that
// follows from them.
//
// A run ends deep in the stack of a worker, and its end may begin or stop other runs, which may end
// at once, and so on. So the thread that ends a run only adds it here. It drains the queue when
// nothing of a run is on its stack, one step after the other. The stack stays flat, however many
// runs a chain has.
//
// Functions that can end runs get the queue of their caller. Those that are called by threads
// outside of the engine make a queue of their own, which drains itself at the end of its scope.
// Not thread-safe.
class Completions {
 public:
  Completions() = default;
  ~Completions() { Drain(); }
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  bool empty() const { return count_ == 0; }

  // Adds a step. Steps are done in the order of CompletionStep, and equal ones in the order in
  // which they were added.
  void Add(CompletionStep step, Completion& completion) {
    List& list = lists_[static_cast<size_t>(step)];
    completion.next_ = nullptr;
    (list.last != nullptr ? list.last->next_ : list.first) = &completion;
    list.last = &completion;
    ++count_;
  }

  // Does all steps up to `last`, and those that are added meanwhile; later ones stay. Must not be
  // called by Complete.
  void Drain(CompletionStep last = CompletionStep::kSuccessors) {
    if (count_ > 0) DrainSome(last);
  }

 private:
  struct List {
    Completion* first = nullptr;
    Completion* last = nullptr;
  };

  void DrainSome(CompletionStep last);

  std::array<List, 4> lists_;  // one for each step
  size_t count_ = 0;
  bool draining_ = false;
};

}  // namespace pto::engine
