#include "ingest/intake_options.h"

#include <algorithm>

#include "base/files.h"
#include "base/parse.h"

namespace gpulens {
namespace {

std::string HostId(const std::string& root) {
  const auto text = ReadFile(root + "/etc/machine-id", 256);
  return text ? std::string(Trim(*text)) : "";
}

// What may arrive at once, and what may wait: each a quarter of what is kept free for what comes at once,
// since a text that grows may hold twice its size. One request always may.
size_t Room(uint64_t memory_limit, double spike, size_t max_request) {
  const size_t most = 2 * max_request;
  if (memory_limit == 0) return most;
  const auto quarter = static_cast<size_t>(static_cast<double>(memory_limit) * spike / 4);
  return std::clamp(quarter, max_request, most);
}

size_t Room(const Config& config, const ReceiverContext& context) {
  return Room(context.memory_limit, config.Group("memory_limiter").Double("spike"),
              config.Size("max_request"));
}

}  // namespace

OtlpIntake::Options ReadIntakeOptions(const Config& config, const ReceiverContext& context,
                                      std::vector<std::string_view> ways) {
  const Config& batch = config.Group("batch");
  const Config& memory = config.Group("memory_limiter");
  OtlpIntake::Options options;
  options.ways = std::move(ways);
  options.unwanted = config.Texts("drop");
  options.max_request = config.Size("max_request");
  options.max_waiting = Room(config, context);
  options.batch.items = static_cast<uint32_t>(batch.Int("items"));
  options.batch_wait = batch.Time("wait");
  const std::string_view receiver = options.ways.front().substr(0, options.ways.front().find('/'));
  options.source = receiver == RecordSourceName(RecordSource::kRemoteWrite) ? RecordSource::kRemoteWrite
                                                                            : RecordSource::kOtlp;
  options.identity = {context.stated, context.host_name, HostId(context.env.root),
                      AttributeSet({{"gpulens.receiver", receiver}})};
  options.memory = {context.memory_limit, memory.Double("limit"), memory.Double("spike")};
  return options;
}

ReceiverHttp::Options ReadHttpOptions(std::string_view receiver, const Config& config,
                                      const ReceiverContext& context) {
  ReceiverHttp::Options options;
  options.at = {receiver, config.Group("http").Texts("listen"), config.Bool("insecure")};
  options.max_request = config.Size("max_request");
  options.max_arriving = Room(config, context);
  options.connections = static_cast<size_t>(config.Int("max_connections"));
  return options;
}

}  // namespace gpulens
