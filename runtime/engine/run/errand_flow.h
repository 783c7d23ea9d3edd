#pragma once

namespace pto::engine {

class Errand;
struct ErrandShare;

// The errands of one run, first in, first out. Also a node in the ring of its account's runs that
// have errands. Guarded by the lock of the ErrandQueue.
struct ErrandFlow {
  Errand* first = nullptr;
  Errand* last = nullptr;
  ErrandShare* share = nullptr;  // of the run's account; set only while there are errands
  ErrandFlow* previous = nullptr;
  ErrandFlow* next = nullptr;
};

}  // namespace pto::engine
