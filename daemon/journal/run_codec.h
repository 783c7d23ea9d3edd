#pragma once

#include <cstdint>

#include "daemon/journal/journal.pb.h"
#include "daemon/model/run_record.h"
#include "daemon/names/digest.h"

namespace pto {

// How a run is in the journal: what is known when it is accepted.
journal::v1::RunRecord ToJournal(const RunRecord& run, uint64_t number, uint64_t own_number,
                                 const Digest& digest);
// The same, and how it ended.
journal::v1::RunRecord ToJournal(const RunRecord& run, uint64_t number, uint64_t own_number,
                                 const Digest& digest, RunState state);

// And back, without the session's name.
RunRecord FromJournal(const journal::v1::RunRecord& record);
// With the version that it was made by; none for a run that no request can be the same as.
Digest DigestOfJournal(const journal::v1::RunRecord& record);

}  // namespace pto
