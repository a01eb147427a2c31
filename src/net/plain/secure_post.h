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

}  // namespace gpulens
