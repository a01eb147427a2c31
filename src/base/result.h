// Early returns of Status and Result (gpulens/status.h).
#pragma once

#include <gpulens/status.h>

#define GPULENS_CONCAT_(a, b) a##b
#define GPULENS_CONCAT(a, b) GPULENS_CONCAT_(a, b)

// Returns the Status of `expr` (a Status) from the calling function unless it is ok.
#define RETURN_IF_ERROR(expr)                                         \
  do {                                                                \
    if (::gpulens::Status status_ = (expr); !status_) return status_; \
  } while (false)

// Assigns the value of `expr` (a Result) to `lhs`, or returns its Status.
#define ASSIGN_OR_RETURN(lhs, expr)                                                                    \
  auto GPULENS_CONCAT(result_, __LINE__) = (expr);                                                     \
  if (!GPULENS_CONCAT(result_, __LINE__)) return std::move(GPULENS_CONCAT(result_, __LINE__)).error(); \
  lhs = *std::move(GPULENS_CONCAT(result_, __LINE__))
