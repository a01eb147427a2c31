// Queries an engine's API for its version and the model it serves. Does not delay scrapes; failures are
// ignored.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "net/client/http_client.h"
#include "plugins/remote_access.h"
#include "scrape/engine/engine_row.h"

namespace gpulens::engine_page {

struct EngineFacts {
  std::string model;    // only when it serves exactly one
  std::string version;  // as the engine formats it
  friend bool operator==(const EngineFacts&, const EngineFacts&) = default;
};

// Adds the facts of one answer: printable texts of at most 256 bytes. Paths by engine: vLLM /version, SGLang
// /get_model_info, TGI /info, llama.cpp /props, Triton /v2, NIM /v1/version; /v1/models of all with OpenAI's
// API.
void ReadFacts(std::string_view path, std::string_view body, EngineFacts& facts);

// Used in its instance's run, where Fetch and Collect alternate; answers arrive on the I/O loop.
class EngineIdentity {
 public:
  // `page`: URL of the engine's page, whose host and port the API has, too (Triton: port 8000). `api`:
  // overrides it.
  EngineIdentity(const HttpUrl& page, const Result<HttpUrl>& api, HttpClient& client);
  ~EngineIdentity();

  // On the loop. Queries at first, after Refresh, and every ten minutes, once `engine` is known.
  void Query(const Engine* engine, const RemoteAccess& access, int64_t now_ns);
  // Call when the engine may have restarted.
  void Refresh() noexcept { next_ns_ = 0; }
  // The facts known so far.
  EngineFacts facts() const;

 private:
  struct Round;
  const HttpUrl page_;
  const Result<HttpUrl> api_;
  HttpClient& client_;
  int64_t next_ns_ = 0;
  std::shared_ptr<Round> round_;
};

}  // namespace gpulens::engine_page
