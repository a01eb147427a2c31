// Lets the stores and Python's module sqlite3 have the same file open: docs/adr/0035-python-sqlite.md.
#include "src/bind.h"
#include "store/sqlite/locks_apart.h"

namespace gpulens::python {

void BindFileLocks(nb::module_& m) {
#ifdef GPULENS_OWN_SQLITE
  const Status apart = sqlite::HoldLocksApart();
  m.attr("_file_locks") = apart ? std::string("apart") : apart.detail;
#else
  m.attr("_file_locks") = "shared";  // a single SQLite, which knows all locks of the process
#endif
  m.def("_kept_descriptors", &sqlite::KeptDescriptors);
}

}  // namespace gpulens::python
