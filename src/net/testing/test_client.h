// A blocking client for tests of servers: writes any bytes, right or wrong, and reads with a deadline.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "net/message/address.h"
#include "net/testing/certificates.h"

namespace gpulens::testing {

struct Answer {
  int status = 0;  // 0: the connection ended or the deadline passed before a whole answer
  std::string head, body;
  // The value of a field, without case of its name; empty when it is not there.
  std::string Header(std::string_view name) const;
};

// Not thread-safe. Every wait ends after 10 s.
class TestClient {
 public:
  struct Tls {
    std::string ca;       // PEM; empty: the server is not checked
    Pem certificate;      // ours, when set
    int max_version = 0;  // an SSL version number; 0: any
  };

  explicit TestClient(const Endpoint& to);
  TestClient(const Endpoint& to, const Tls& tls);
  TestClient(TestClient&&) noexcept;
  ~TestClient();

  bool connected() const noexcept { return connected_; }
  const std::string& error() const noexcept { return error_; }
  int fd() const noexcept { return fd_.get(); }
  // False when the server has gone.
  bool Send(std::string_view bytes);
  // The next answer; with `head_only` no body is expected. Leaves out 1xx.
  Answer Read(bool head_only = false);
  // Exactly `size` bytes; fewer at the end of the stream.
  std::string ReadBytes(size_t size);
  // Everything until the server closes.
  std::string ReadAll();
  // True when the server closes within the deadline and sends nothing more.
  bool ReadsEnd();
  void FinishSending();
  // The subject's common name of the server's certificate.
  std::string PeerName() const;

 private:
  struct Ssl;
  bool Fill();
  UniqueFd fd_;
  std::unique_ptr<Ssl> ssl_;
  bool connected_ = false;
  std::string error_;
  std::string received_;
};

// One request on a connection of its own: "GET", "/metrics", "Accept: x\r\n".
Answer Fetch(const Endpoint& to, std::string_view method, std::string_view path,
             std::string_view fields = {});

// Calls `good` every few milliseconds until it is true; false after 10 s.
template <class Condition>
bool Eventually(Condition good);
void ShortPause();

template <class Condition>
bool Eventually(Condition good) {
  for (int i = 0; i < 2000; ++i) {
    if (good()) return true;
    ShortPause();
  }
  return false;
}

}  // namespace gpulens::testing
