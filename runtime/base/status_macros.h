#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the function when `expr`, an absl::Status, is an error.
#define PTO_RETURN_IF_ERROR(expr)              \
  do {                                         \
    absl::Status pto_status_ = (expr);         \
    if (!pto_status_.ok()) return pto_status_; \
  } while (false)

#define PTO_STATUS_CONCAT_INNER_(a, b) a##b
#define PTO_STATUS_CONCAT_(a, b) PTO_STATUS_CONCAT_INNER_(a, b)

// Evaluates `expr`, an absl::StatusOr; assigns its value to `lhs` or returns its error.
#define PTO_ASSIGN_OR_RETURN(lhs, expr) \
  PTO_ASSIGN_OR_RETURN_IMPL_(PTO_STATUS_CONCAT_(pto_statusor_, __LINE__), lhs, expr)
#define PTO_ASSIGN_OR_RETURN_IMPL_(statusor, lhs, expr)    \
  auto statusor = (expr);                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)
