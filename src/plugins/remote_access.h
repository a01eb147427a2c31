// What another program needs to let us in: header fields, passwords, TLS. Files behind it are read again
// while it is in use, since passwords, tokens and certificates are replaced under running programs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/files.h"
#include "net/message/address.h"
#include "net/tls.h"
#include "plugins/config.h"

namespace gpulens {

// Which of kTransportOptions contradict each other, or cannot be sent. `url` is where they are for.
void CheckRemote(const Config& transport, const HttpUrl& url, ConfigFaults& faults);

// Not thread-safe; Refresh may wait for files, so it belongs on a worker.
class RemoteAccess {
 public:
  // Whole header lines, each with its end.
  struct Fields {
    std::string_view accept = {};  // unless the configuration has an Accept of its own
    std::string_view always = {};
  };

  // Of a config with kTransportOptions. kInvalidArgument for options that contradict each other. Reads no
  // file yet.
  static Result<RemoteAccess> Make(const Config& transport, const HttpUrl& url, const Fields& fields);

  // Reads what may have changed. Not ok: nothing can be asked now; the detail tells why.
  Status Refresh();

  // Whole header lines, Authorization among them.
  const std::string& headers() const noexcept { return headers_; }
  // Null for http.
  const std::shared_ptr<const TlsContext>& tls() const noexcept { return tls_; }

 private:
  RemoteAccess() = default;
  void SetPlain(const Config& transport, const Fields& fields);
  Status RefreshSecret();
  Status RefreshTls();

  std::string user_, secret_, secret_file_;
  bool basic_ = false, bearer_ = false;
  std::string plain_headers_, headers_, scratch_, shown_secret_;
  bool shown_ = false;
  bool wants_tls_ = false;
  TlsClientOptions tls_options_;
  std::vector<std::string> tls_files_;
  std::vector<FileMark> tls_marks_;
  std::shared_ptr<const TlsContext> tls_;
};

}  // namespace gpulens
