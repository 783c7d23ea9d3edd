// Messages of clients of the memory broker, as the broker receives them: one after another, on one
// connection. Each is either rejected as a whole, or answered as a model of the connection
// predicts, with a message that the client can read.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "daemon/broker/visit.h"
#include "daemon/session/session.h"
#include "daemon/session/session_manager.h"
#include "proto/broker/message.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/timer.h"
#include "runtime/chip/sim/sim_chip.h"
#include "runtime/engine/engine.h"
#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/expect.h"

namespace pto::fuzz {
namespace {

using broker::Op;
using broker::Outcome;

constexpr char kSession[] = "s";
constexpr char kKeyByte = 'k';
constexpr uint32_t kUser = 1000;

// A node with one session.
class Node {
 public:
  Node() {
    engine::Engine::Options engine;
    engine.chips.push_back(engine::SimChip::Create(0, 24, 1 << 20));
    engine.clock = &clock_;
    engine.timers = &timers_;
    engine_ = std::make_unique<engine::Engine>(std::move(engine));
    daemon::SessionManager::Options manager;
    manager.limits = &limits_;
    manager.engine = engine_.get();
    manager.timers = &timers_;
    manager.background = &timers_;
    manager.clock = &clock_;
    sessions_ = std::make_unique<daemon::SessionManager>(manager);
    daemon::SessionManager::Request request;
    request.id = kSession;
    request.attach_key = std::string(broker::kKeyBytes, kKeyByte);
    request.ttl = absl::Hours(1);
    session_ = sessions_->Create(daemon::auth::Principal(daemon::auth::UidName(kUser), {}), request)
                   .value();
  }

  daemon::SessionManager& sessions() { return *sessions_; }
  daemon::Session& session() { return *session_; }

 private:
  daemon::Limits limits_;
  ManualClock clock_;
  TimerQueue timers_{clock_};
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<daemon::SessionManager> sessions_;
  std::shared_ptr<daemon::Session> session_;
};

// One client's connection, and its expected state.
class Connection {
 public:
  explicit Connection(Node& node) : node_(node), visit_(node.sessions(), kUser) {
    Add("x");
    Add("y-1");
  }
  ~Connection() {
    for (const std::string& name : std::set<std::string>(buffers_)) Remove(name);
  }

  // Returns false if the broker would close the connection.
  bool Receive(absl::Span<const char> bytes) {
    const absl::StatusOr<broker::Request> request = broker::ParseRequest(bytes);
    if (!request.ok()) {
      ExpectReason(request.status(), reason::kMessageInvalid);
      return false;
    }
    const broker::RequestBytes again = broker::Encode(*request);
    PTO_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
              "no two messages mean the same");
    broker::Reply reply;
    reply.op = request->op;
    reply.number = request->number;
    Answer(*request, reply);
    CheckReply(reply);
    return request->op != Op::kAttach || reply.outcome == Outcome::kOk;
  }

  // The client deletes or creates a buffer with another call.
  void Toggle() {
    if (buffers_.count("x") > 0) {
      Remove("x");
    } else {
      Add("x");
    }
  }

 private:
  void Answer(const broker::Request& request, broker::Reply& reply) {
    switch (request.op) {
      case Op::kAttach: {
        const bool right = !attached_ && request.name == kSession &&
                           std::all_of(request.key.begin(), request.key.end(),
                                       [](char c) { return c == kKeyByte; });
        reply.outcome = visit_.Attach(request);
        PTO_CHECK(reply.outcome == (right ? Outcome::kOk : Outcome::kDenied),
                  "only the owner attaches, once");
        attached_ |= right;
        break;
      }
      case Op::kMap: {
        daemon::MappedBuffer found;
        reply.outcome = visit_.Find(request, &found);
        const Outcome wanted = !attached_                          ? Outcome::kDenied
                               : buffers_.count(request.name) == 0 ? Outcome::kBufferGone
                                                                   : Outcome::kOk;
        PTO_CHECK(reply.outcome == wanted, "finds what is there, for its owner");
        if (wanted != Outcome::kOk) break;
        reply.region = next_region_++;
        reply.bytes = found.buffer.lock()->memory->bytes();
        visit_.Add(reply.region, std::move(found));
        regions_[reply.region] = request.name;
        break;
      }
      case Op::kCheck: {
        const auto region = regions_.find(request.region);
        const Outcome wanted = region == regions_.end() ? Outcome::kRegionUnknown
                               : region->second.empty() ? Outcome::kBufferGone
                                                        : Outcome::kOk;
        reply.outcome = visit_.Check(request.region);
        PTO_CHECK(reply.outcome == wanted, "a region is as its buffer");
        break;
      }
      case Op::kRelease:
        reply.outcome = visit_.Release(request.region);
        PTO_CHECK(reply.outcome ==
                      (regions_.erase(request.region) > 0 ? Outcome::kOk : Outcome::kRegionUnknown),
                  "a region is released once");
        break;
    }
    PTO_CHECK(visit_.attached() == attached_ && !visit_.over(), "attached as long as the session");
  }

  static void CheckReply(const broker::Reply& reply) {
    const absl::StatusOr<broker::Reply> parsed = broker::ParseReply(broker::Encode(reply));
    PTO_CHECK(parsed.ok(), "the client can read every answer");
    PTO_CHECK(parsed->op == reply.op && parsed->number == reply.number &&
                  parsed->outcome == reply.outcome && parsed->region == reply.region &&
                  parsed->bytes == reply.bytes,
              "it reads what was meant");
  }

  void Add(const std::string& name) {
    const daemon::BufferRequest request{name, 0, 64};
    const auto made = node_.session().CreateBuffers(absl::MakeConstSpan(&request, 1));
    PTO_CHECK(made.ok(), std::string(made.status().message()));
    buffers_.insert(name);
  }
  void Remove(const std::string& name) {
    node_.session().RemoveBuffer(name);
    buffers_.erase(name);
    // Its memory may be reused: it must not be accessible under the same region.
    for (auto& [region, buffer] : regions_) {
      if (buffer == name) buffer.clear();
    }
  }

  Node& node_;
  daemon::Visit visit_;
  bool attached_ = false;
  uint64_t next_region_ = 1;
  std::set<std::string> buffers_;
  std::map<uint64_t, std::string> regions_;  // the buffer's name; empty if it was deleted
};

// Messages of a broker, as a client reads them.
void ReadReply(absl::Span<const char> bytes) {
  const absl::StatusOr<broker::Reply> reply = broker::ParseReply(bytes);
  if (!reply.ok()) return ExpectReason(reply.status(), reason::kMessageInvalid);
  const broker::ReplyBytes again = broker::Encode(*reply);
  PTO_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
            "no two messages mean the same");
}

}  // namespace
}  // namespace pto::fuzz

// A byte selects what comes: a message of the right size, or shorter at the end of the input; a
// message that is too long; a message from the broker; or a buffer that is created or deleted.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const node = new pto::fuzz::Node;
  pto::fuzz::ByteReader input(data, size);
  pto::fuzz::Connection connection(*node);
  bool open = true;
  while (open && !input.empty()) {
    switch (input.Byte() % 8) {
      case 5:
        open = connection.Receive(input.Bytes(pto::broker::kRequestBytes + 1));
        break;
      case 6:
        pto::fuzz::ReadReply(input.Bytes(pto::broker::kReplyBytes));
        break;
      case 7:
        connection.Toggle();
        break;
      default:
        open = connection.Receive(input.Bytes(pto::broker::kRequestBytes));
        break;
    }
  }
  return 0;
}
