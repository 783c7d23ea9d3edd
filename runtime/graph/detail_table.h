#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "runtime/graph/image.h"
#include "runtime/graph/image_writer.h"
#include "runtime/graph/task_input.h"
#include "runtime/graph/tensor_table.h"
#include "runtime/graph/text_table.h"

namespace pto::engine {

// The details that only few tasks of a graph under construction have.
class DetailTable {
 public:
  // Whether the task has no details.
  static bool IsWithout(const TaskInput& task) {
    return task.members.empty() && task.vector_kernels.empty() && !task.predicate.has_value() &&
           task.timeout_ns == 0 && task.no_dependency_args == 0;
  }

  // Adds the task's details, if any, and sets its traits.
  absl::Status AddTask(uint32_t index, const TaskInput& task, TensorTable& tensors,
                       const TextTable& text, ImageTask& record);

  void Write(ImageWriter& writer, ImageHeader& header) const;

 private:
  std::vector<ImageDetail> details_;
  std::vector<uint32_t> members_;
};

}  // namespace pto::engine
