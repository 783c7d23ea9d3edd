#pragma once

#include <cstdint>

#include "daemon/journal/journal.pb.h"
#include "daemon/model/run_record.h"
#include "daemon/names/digest.h"

namespace pto::daemon {

// Converts a run to its record at acceptance.
journal::v1::RunRecord ToJournal(const RunRecord& run, uint64_t number, uint64_t own_number,
                                 const Digest& digest);
// Converts a run to its record at its end.
journal::v1::RunRecord ToJournal(const RunRecord& run, uint64_t number, uint64_t own_number,
                                 const Digest& digest, engine::RunState state);

// Converts a record to a run, without the session's name.
RunRecord FromJournal(const journal::v1::RunRecord& record);
// The digest with its version; none for a run that no request can repeat.
Digest DigestOfJournal(const journal::v1::RunRecord& record);

}  // namespace pto::daemon
