// Attributes as Python gives them.
#pragma once

#include <span>
#include <vector>

#include <gpulens/registry.h>

#include "src/bind.h"

namespace gpulens::python {

// Views into the strings of the mapping's keys and values: they hold while those live.
class AttributeList {
 public:
  // A mapping of str to str, bool, int or float. TypeError for anything else, InvalidArgumentError for a
  // whole number of more than 64 bits.
  void Add(nb::handle mapping);
  std::span<const Attribute> all() const noexcept { return attributes_; }

 private:
  void AddOne(PyObject* key, PyObject* value);
  std::vector<Attribute> attributes_;
  std::vector<nb::object> kept_;  // owners of viewed texts
};

}  // namespace gpulens::python
