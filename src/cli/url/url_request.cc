#include "cli/url/url_request.h"

#include <string_view>

#include "base/parse.h"
#include "base/text.h"
#include "net/message/http_message.h"

namespace gpulens {

Result<UrlRequest> MakeUrlRequest(const HttpUrl& url, std::string fields, const UrlOptions& options) {
  UrlRequest out{std::move(fields), nullptr};
  if (!url.user.empty() || !url.password.empty()) AddBasicAuth(out.fields, url.user, url.password);
  for (const std::string& header : options.headers) {
    std::string_view value = header;
    const std::string_view field = TakeUntil(value, ':');
    const Status status = field.size() == header.size()
                              ? Status{Code::kInvalidArgument, "expected Name: value"}
                              : AddRequestField(out.fields, field, Trim(value));
    if (!status) return Status{Code::kInvalidArgument, "--header " + Printable(field) + ": " + status.detail};
  }
  if (!url.tls) return out;
  TlsClientOptions wanted;
  wanted.ca.file = options.ca_file;
  wanted.insecure_skip_verify = options.insecure_skip_verify;
  auto made = TlsContext::Client(wanted);
  if (!made) return Status{Code::kInvalidArgument, "--ca-file: " + made.error().detail};
  out.tls = *std::move(made);
  return out;
}

}  // namespace gpulens
