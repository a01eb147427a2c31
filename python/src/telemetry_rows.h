// Rows of the table of calls as Python has them: dicts in the table's own names and units.
#pragma once

#include <gpulens/inference.h>

#include "sdk/inference/core.h"
#include "src/bind.h"

namespace gpulens::python {

// The rows that `query` asks for, as they are in the file, but for what only this program can read. Flushes
// before; the file is read without the GIL.
nb::list RowsOf(internal::InferenceCore& core, const Query& query);

}  // namespace gpulens::python
