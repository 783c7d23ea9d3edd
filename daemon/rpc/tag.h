#pragma once

namespace pto::daemon::rpc {

// An entry of the completion queue: waits for an operation to end.
class Tag {
 public:
  // The operation has ended. Runs on the polling thread; may delete the tag.
  virtual void Proceed(bool ok) = 0;

 protected:
  ~Tag() = default;
};

// The source of tags. In the daemon this is a gRPC completion queue.
class TagSource {
 public:
  // Waits for the next tag. Returns false once the source is shut down and empty.
  virtual bool Next(Tag** tag, bool* ok) = 0;

 protected:
  ~TagSource() = default;
};

}  // namespace pto::daemon::rpc
