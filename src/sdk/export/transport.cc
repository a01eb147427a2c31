#include "sdk/export/transport.h"

#include "net/message/http_fields.h"
#include "wire/otlp/otlp_answer.h"

namespace gpulens::sdk {

Status ValidateOtlpSuccess(std::string_view answer) {
  const auto partial = ReadOtlpAnswer(answer);
  if (!partial) return {Code::kDataLoss, "the response is not OTLP"};
  if (partial->rejected == 0) return Ok();
  return {Code::kDataLoss, std::to_string(partial->rejected) + " points were refused: " + partial->message};
}

Delivered ValidateOtlpAnswer(int http_status, std::string_view body, std::string_view retry_after,
                             Instant now) {
  if (http_status / 100 == 2) return {ValidateOtlpSuccess(body)};
  std::string why = DescribeStatus(http_status, {});
  if (std::string stated = ReadOtlpError(body); !stated.empty()) why += ": " + stated;
  const bool later = http_status == 429 || http_status == 502 || http_status == 503 || http_status == 504;
  const Code code = later                                      ? Code::kExhausted
                    : http_status == 401 || http_status == 403 ? Code::kPermissionDenied
                                                               : Code::kInvalidArgument;
  return {{code, std::move(why)}, later ? RetryAfter(retry_after, now).value_or(Duration(0)) : Duration(0)};
}

PlainTransport::PlainTransport(HttpUrl url, std::string headers)
    : url_(std::move(url)), headers_("Content-Type: application/x-protobuf\r\n" + std::move(headers)) {}

Delivered PlainTransport::Send(std::shared_ptr<const std::string> request, Duration timeout) {
  return SendTo({}, *request, timeout);
}

Delivered PlainTransport::SendTo(std::string unix_socket, const std::string& request, Duration timeout) {
  Result<BlockingReply> reply = post_.Send({url_, std::move(unix_socket), headers_, request}, timeout);
  if (!reply) return {std::move(reply).error()};
  return ValidateOtlpAnswer(reply->status, reply->body, reply->retry_after, RealClock().Now());
}

}  // namespace gpulens::sdk
