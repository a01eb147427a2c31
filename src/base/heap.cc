#include "base/heap.h"

#include <malloc.h>

namespace gpulens {

void ReturnFreedMemory() noexcept { ::malloc_trim(0); }

}  // namespace gpulens
