#pragma once

#include <cstdint>

#include "runtime/host/object/loaded_object.h"

namespace pto::host {

// Counts how often a kernel looks whether it may go on. Between two looks, a wait of the PTO ABI
// sleeps or yields; waits of old objects give up after a number of looks, without an error.
//
// Lets the object's calls of nanosleep, clock_nanosleep, usleep and sched_yield be counted, for the
// thread that makes them. Nothing else in the process is affected. Call it before the object's code
// runs on several threads. Returns how many of these functions the object imports.
int CountLooks(const LoadedObject& object);

// The looks of the calling thread so far, in all objects.
uint64_t LooksOfThread();

}  // namespace pto::host
