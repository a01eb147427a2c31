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

// A new folder below the temporary one; removed with its files at destruction.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  const std::string& path() const noexcept { return path_; }
  // Writes a file into it and returns its path.
  std::string Write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

}  // namespace gpulens::testing
