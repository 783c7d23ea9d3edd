#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/file_descriptor.h"

struct link_map;

namespace pto::host {

// A shared object in this process, private to its owner: nothing else can find its symbols, and it
// shares no variable with other objects, see private_copy.h. Loading runs its initialisers: only in
// a process that may crash. The owner destroys it when none of its code runs any more.
class LoadedObject {
 public:
  // Loads a copy of the bytes, from memory. `name` is what the object is called in backtraces and
  // what its own code sees: the file name of the user. FIELD_INVALID with the words of the loader.
  static absl::StatusOr<std::unique_ptr<LoadedObject>> Load(std::string bytes,
                                                            const std::string& name);

  ~LoadedObject();
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  // nullptr: it has no such symbol itself.
  void* Find(const char* symbol) const;

  // What the loader knows of it.
  const link_map* map() const { return map_; }

 private:
  LoadedObject(void* handle, const link_map* map) : handle_(handle), map_(map) {}

  void* const handle_;
  const link_map* const map_;
};

}  // namespace pto::host
