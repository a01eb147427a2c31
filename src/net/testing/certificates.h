// Generates keys and certificates for tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "net/tls.h"

namespace gpulens::testing {

struct Pem {
  std::string certificate, key;
};

// A CA that signs itself. Elliptic keys, valid for a day around now. Aborts when OpenSSL fails.
Pem MakeCa(const std::string& name);
// A certificate of `ca` for `names`: "localhost", "127.0.0.1", or an email address.
Pem MakeCertificate(const Pem& ca, const std::string& common_name, const std::vector<std::string>& names);

// Certificates of a server and its clients, and contexts made of them.
struct TlsFixture {
  Pem ca = MakeCa("test ca"), other = MakeCa("other ca");
  std::shared_ptr<const TlsContext> Server(const std::vector<std::string>& names,
                                           bool request_client_certificate = false) {
    Pem own = MakeCertificate(ca, "server", names);
    TlsServerOptions options;
    options.certificate.text = own.certificate;
    options.key.text = own.key;
    if (request_client_certificate) {
      options.client_ca.text = ca.certificate;
      options.client_auth = ClientAuth::kRequireAndVerifyClientCert;
    }
    auto made = TlsContext::Server(options);
    CHECK(made.ok());
    return *made;
  }
  std::shared_ptr<const TlsContext> Client(TlsClientOptions options) {
    auto made = TlsContext::Client(options);
    CHECK(made.ok());
    return *made;
  }
  TlsClientOptions Trusting(const Pem& authority) {
    TlsClientOptions options;
    options.ca.text = authority.certificate;
    return options;
  }
};

}  // namespace gpulens::testing
