// What commands send to a URL: the fields and the TLS of --header, --ca-file and --insecure-skip-verify.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "net/message/address.h"
#include "net/tls.h"

namespace gpulens {

struct UrlOptions {
  std::vector<std::string> headers = {};  // "Authorization: Bearer …"
  std::string ca_file = {};               // PEM; empty: the machine's
  bool insecure_skip_verify = false;
};

struct UrlRequest {
  std::string fields;                     // each "Name: value\r\n"
  std::shared_ptr<const TlsContext> tls;  // null: http
};

// `fields` come first, then the user and password of the URL, then the options. kInvalidArgument: an option
// cannot be used; the detail begins with its name.
Result<UrlRequest> MakeUrlRequest(const HttpUrl& url, std::string fields, const UrlOptions& options);

}  // namespace gpulens
