// Keys and certificates for tests, made on the spot.
#pragma once

#include <string>
#include <vector>

namespace gpulens::testing {

struct Pem {
  std::string certificate, key;
};

// A CA that signs itself. Elliptic keys, valid for a day around now. Aborts when OpenSSL fails.
Pem MakeCa(const std::string& name);
// A certificate of `ca` for `names`: "localhost", "127.0.0.1", or an email address.
Pem MakeCertificate(const Pem& ca, const std::string& common_name, const std::vector<std::string>& names);

}  // namespace gpulens::testing
