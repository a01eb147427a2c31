// TLS and gRPC, which are in a library of their own beside gpulens._core.
#pragma once

namespace gpulens::python {

// From here on exporters and stores on servers find it when they first need it. kUnavailable says why there
// is none: the package was built without, or a library of the system is not here.
void OpenSecureDoor() noexcept;

}  // namespace gpulens::python
