// The way in for tests, which bring a driver of their own.
#pragma once

#include <gpulens/resident_kernel.h>

#include "sources/cuda/cuda_library.h"

namespace gpulens {

struct ResidentAccess {
  static Result<ResidentKernel> Launch(const cuda::Symbols& cuda, const ResidentOptions& options);
};

}  // namespace gpulens
