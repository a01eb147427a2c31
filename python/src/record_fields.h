// A record of a call as Python gives it.
#pragma once

#include <vector>

#include <gpulens/inference_record.h>

#include "src/bind.h"

namespace gpulens::python {

// The record holds as long as this does, and while the objects live that it was read from. What has the wrong
// type is a TypeError (nb::python_error or nb::type_error); what has the right one is never refused: a store
// sets aside what it cannot keep.
class RecordFields {
 public:
  // An object with all the fields as attributes.
  void TakeAll(nb::handle from);
  // One field by its name.
  void Take(PyObject* name, PyObject* value);
  const InferenceRecord& record() const noexcept { return record_; }

 private:
  std::string_view Text(const char* name, PyObject* value);
  void TakeOther(const char* name, PyObject* value);

  InferenceRecord record_;
  std::vector<nb::object> kept_;  // owners of viewed texts
};

}  // namespace gpulens::python
