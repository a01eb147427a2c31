// Rows of the table of calls as Python has them: dicts in the table's own names and units.
#pragma once

#include <gpulens/inference.h>

#include "sdk/inference/core.h"
#include "src/bind.h"

namespace gpulens::python {

// Returns the rows that match `query` with the file's columns, except those that only this program can read.
// Flushes first; the file is read without the GIL.
nb::list RowsOf(internal::InferenceCore& core, const Query& query);

}  // namespace gpulens::python
