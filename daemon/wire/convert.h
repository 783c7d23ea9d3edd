#pragma once

#include <string>

#include "daemon/domain/session_buffer.h"
#include "daemon/events/event_log.h"
#include "daemon/model/run_record.h"
#include "daemon/run/registered_graph.h"
#include "daemon/session/session.h"
#include "kernels/kernel.h"
#include "pto/v1/buffer.pb.h"
#include "pto/v1/event.pb.h"
#include "pto/v1/kernel.pb.h"
#include "pto/v1/run.pb.h"
#include "pto/v1/session.pb.h"

// Converts the daemon's objects to API messages.
namespace pto::daemon {

struct SessionKernel;

void ToProto(const RunStatus& status, v1::Run* run);
void ToProto(const RunStatus& status, uint64_t tag, v1::LaunchCompletion* completion);
void ToProto(Session& session, const std::string& boot_id, v1::Session* proto);
void ToProto(const std::string& session_id, const SessionBuffer& buffer, v1::Buffer* proto);
void ToProto(const RegisteredGraph& graph, v1::Graph* proto);
void ToProto(const Kernel& kernel, v1::Kernel* proto);
// An uploaded one of this session.
void ToProto(const std::string& session_id, const SessionKernel& kernel, v1::Kernel* proto);
// Converts a log entry of `session` to an event to send: see task_columns.h.
void ToProto(const LogEntry& entry, Session& session, const std::string& boot_id, v1::Event* proto);

}  // namespace pto::daemon
