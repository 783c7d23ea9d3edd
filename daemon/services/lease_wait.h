#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/names/names.h"
#include "daemon/node/node.h"
#include "daemon/rpc/unary.h"
#include "daemon/session/session_hold.h"
#include "pto/v1/session.grpc.pb.h"

namespace pto::daemon {

// A call that returns a chip lease: when it is granted, when its session has ended, after the
// timeout or when the client has gone. Holds the session until then. Owned by the lease's waiter
// and by a timer; the first of them answers.
class LeaseWait final : public std::enable_shared_from_this<LeaseWait> {
 public:
  using Call = rpc::UnaryCallPtr<v1::LeaseChipsRequest, v1::ChipLease>;

  LeaseWait(Node& node, Call call, std::shared_ptr<Session> session)
      : node_(node), call_(std::move(call)), session_(session), hold_(std::move(session)) {}

  void Begin(absl::Duration wait) {
    const std::shared_ptr<LeaseWait> self = shared_from_this();
    call_->OnCancelled([weak = weak_from_this()] {
      if (const std::shared_ptr<LeaseWait> wait = weak.lock()) wait->GiveUp();
    });
    timer_.store(node_.timers().Schedule(
                     node_.clock().NowNanos() + absl::ToInt64Nanoseconds(wait),
                     [self] { self->GiveUp(); }, session_.get()),
                 std::memory_order_release);
    waiter_.store(node_.leases().AddWaiter(session_->id(), [self] { self->GiveUp(); }),
                  std::memory_order_seq_cst);
    // One of the two sees the other, so nothing is left that keeps the call alive.
    if (answered_.load(std::memory_order_seq_cst)) LetGo();
  }

 private:
  // Answers with the lease's current state.
  void GiveUp() {
    if (answered_.exchange(true, std::memory_order_seq_cst)) return;
    LetGo();
    // Before the client gets the answer: the lease of the session restarts here.
    hold_.Drop();
    const absl::StatusOr<ChipLeases::Lease> lease = node_.leases().Find(session_->id());
    if (lease.ok()) Fill(*lease, session_->name(), call_->response());
    call_->Finish(lease.status());
  }

  void LetGo() {
    if (const uint64_t waiter = waiter_.load(std::memory_order_seq_cst); waiter != 0) {
      node_.leases().RemoveWaiter(waiter);
    }
    node_.timers().Cancel(timer_.load(std::memory_order_acquire));
  }

  static void Fill(const ChipLeases::Lease& lease, const std::string& session,
                   v1::ChipLease* proto) {
    proto->set_session(session);
    proto->set_state(lease.granted ? v1::ChipLease::GRANTED : v1::ChipLease::WAITING);
    for (const uint32_t chip : lease.chips) proto->add_chips(names::Chip(chip));
    proto->set_position(lease.position);
  }

  Node& node_;
  Call call_;
  const std::shared_ptr<Session> session_;
  SessionHold hold_;  // until the answer
  std::atomic<TimerQueue::Id> timer_{0};
  std::atomic<uint64_t> waiter_{0};
  std::atomic<bool> answered_{false};
};

}  // namespace pto::daemon
