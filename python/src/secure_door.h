// Access to the library with TLS and gRPC next to gpulens._core.
#pragma once

namespace gpulens::python {

// Registers it for exporters and stores, which open it at first use. kUnavailable: the package was built
// without it, or a system library is missing.
void OpenSecureDoor() noexcept;

}  // namespace gpulens::python
