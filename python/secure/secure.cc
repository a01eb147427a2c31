// libgpulens_secure.so: TLS and gRPC for the package, opened by gpulens._core at their first use. So other
// programs do not load OpenSSL, and the package works where these libraries are absent.
#include "net/client/http_client.h"
#include "sdk/export/otlp_plan.h"

// The two are of one build and one package: what passes between them is plain C++.
extern "C" {
// NOLINTBEGIN(readability-identifier-naming): C has no namespaces.
[[gnu::visibility("default")]] gpulens::sdk::SecureMaker gpulens_secure_maker();
gpulens::sdk::SecureMaker gpulens_secure_maker() { return &gpulens::sdk::MakeSecureTransport; }
[[gnu::visibility("default")]] gpulens::SecurePost gpulens_secure_post();
gpulens::SecurePost gpulens_secure_post() { return &gpulens::PostOverTls; }
// NOLINTEND(readability-identifier-naming)
}
