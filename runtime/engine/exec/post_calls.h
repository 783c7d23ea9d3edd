#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/pto_kernel.h"
#include "runtime/engine/exec/async_copy.h"
#include "runtime/engine/lane/post_table.h"

namespace pto::engine {

// What the engine knows of a post whose kernel has made calls. For the thread that handles a call
// of the post, and then for the worker that ends it.
class PostCalls final : public PostDetail {
 public:
  // More are refused. What stays when the block has ended is charged to its account.
  static constexpr size_t kMaxCopies = 1024;  // under way
  static constexpr uint32_t kMaxConditions = 64;
  // Of all calls of one task: a deadline looks at all of them.
  static constexpr uint32_t kMaxTaskConditions = 65536;

  static PostCalls& Of(PostSlot& slot) {
    if (slot.detail == nullptr) slot.detail = std::make_unique<PostCalls>();
    return static_cast<PostCalls&>(*slot.detail);
  }
  // nullptr: the post has made no calls.
  static const PostCalls* Find(const PostSlot& slot) {
    return static_cast<const PostCalls*>(slot.detail.get());
  }

  // Whether there is room for another copy. Forgets those that are over.
  bool HasRoomForCopy();
  pto_event AddCopy(std::shared_ptr<AsyncCopy> copy);
  // Whether the block has begun it.
  bool HasCopy(pto_event event) const { return event != 0 && event <= ended_ + copies_.size(); }
  // nullptr: it is over.
  std::shared_ptr<AsyncCopy> FindCopy(pto_event event) const {
    return event <= ended_ ? nullptr : copies_[event - ended_ - 1];
  }

  uint32_t conditions = 0;
  // The last call that did not succeed, and why; a kernel must fail then.
  pto_result refused = PTO_OK;
  std::string why;
  absl::Status failure;  // of the last wait that was over its time, which says more

 private:
  std::deque<std::shared_ptr<AsyncCopy>> copies_;
  uint64_t ended_ = 0;  // copies that are not in the list any more
};

}  // namespace pto::engine
