// PlainPost's request over TLS, for programs that link it: what needs OpenSSL and Asio stays out of those
// that do not.
#pragma once

#include <gpulens/status.h>

#include "net/plain/plain_post.h"

namespace gpulens {

// As PlainPost::Send, of an https URL; `request.unix_socket` is not heeded. Thread-safe.
using SecurePost = Result<PlainReply> (*)(const PlainPost::Request& request, Duration timeout);

// Null: none is linked.
SecurePost LinkedSecurePost() noexcept;
void SetSecurePost(SecurePost post) noexcept;

// From here on it is PostOverTls. A program that names one of the two links OpenSSL.
void LinkSecurePost() noexcept;
// A loop of its own runs on the calling thread. Certificates are checked by the machine's CA files
// (net/tls.h). The timeout is for all of it; with `request.on_body`, twelve times that, and an answer
// that announces more than 64 MiB at once is refused.
Result<PlainReply> PostOverTls(const PlainPost::Request& request, Duration timeout);

}  // namespace gpulens
