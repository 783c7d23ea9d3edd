#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "runtime/base/mutex.h"

namespace pto::host {

// What a shared library offers to those that link with it.
struct Library {
  absl::flat_hash_set<std::string> versions;  // for example GLIBC_2.34
  absl::flat_hash_set<std::string> symbols;
};

// Where kernels find the libraries that they need. Thread-safe.
class LibrarySource {
 public:
  virtual ~LibrarySource() = default;

  // By the name in DT_NEEDED, for example libm.so.6. nullptr: there is none.
  virtual std::shared_ptr<const Library> Find(absl::string_view name) = 0;
};

// The libraries in some folders. Reads each once, without loading it.
class LibraryFolders final : public LibrarySource {
 public:
  explicit LibraryFolders(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  std::shared_ptr<const Library> Find(absl::string_view name) override;

  // Those in which the dynamic loader of this machine looks without further settings.
  static LibraryFolders& OfThisMachine();

 private:
  const std::vector<std::string> folders_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<const Library>> found_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::host
