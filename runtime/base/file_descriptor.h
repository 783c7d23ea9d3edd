#pragma once

#include <unistd.h>

#include <utility>

namespace pto {

// Owns a file descriptor and closes it; -1: none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() { Close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }

  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }

 private:
  void Close() {
    if (number_ >= 0) close(number_);
  }

  int number_ = -1;
};

}  // namespace pto
