// The engines that replicas take leases from: Redis or Valkey, and PostgreSQL. See BudgetEngine in leases.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "proxy/admission/leases.h"

namespace gpulens::proxy {

// A reply of RESP2, the protocol of Redis.
struct RespReply {
  enum class Type : uint8_t { kText, kError, kInteger, kNull, kArray };
  Type type = Type::kNull;
  int64_t integer = 0;
  std::string text;                 // of a text or an error
  std::vector<RespReply> elements;  // of an array
};

enum class RespState : uint8_t { kDone, kMore, kBad };
// Limits of a reply: what the scripts here return has eight numbers.
inline constexpr size_t kMostRespBytes = 64 << 10, kMostRespElements = 64, kMostRespDepth = 4;
// Parses one reply at the front of `bytes` and removes it when it is kDone. kBad: no reply, or beyond a
// limit.
RespState ParseResp(std::string_view& bytes, RespReply& out);
// Appends a command as an array of texts.
void AppendRespCommand(std::string& out, std::initializer_list<std::string_view> words);

// As OpenBudgetEngine. The connection has a loop of its own, whose thread starts with the first call; a call
// waits at most `timeout`. TLS checks the server's certificate against the machine's CA files, or `?ca=FILE`.
Result<std::unique_ptr<BudgetEngine>> OpenRedisEngine(const std::string& url, const std::string& tenant_tag,
                                                      Duration timeout = std::chrono::seconds(2));
// Makes its tables gpulens_budget, gpulens_budget_lease and gpulens_budget_fence where they are absent.
Result<std::unique_ptr<BudgetEngine>> OpenPostgresEngine(const std::string& url);

}  // namespace gpulens::proxy
