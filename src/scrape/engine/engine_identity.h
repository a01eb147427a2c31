// Who an engine says it is, beside its page: the model it serves and its version.
//
// Asked on the side: a page is never late because of it, and an engine that answers none of this is fine.
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
  std::string version;  // as it writes it
  friend bool operator==(const EngineFacts&, const EngineFacts&) = default;
};

// What one answer says. Nothing that is not there; texts are printable and at most 256 bytes. The paths that
// are asked, and where the facts stand, by engine: vLLM /version, SGLang /get_model_info, TGI /info,
// llama.cpp /props, Triton /v2, NIM /v1/version; /v1/models of all that speak OpenAI's API.
void ReadFacts(std::string_view path, std::string_view body, EngineFacts& facts);

// Used in its instance's run, where Fetch and Collect take turns; the answers come on the I/O loop.
class EngineIdentity {
 public:
  // `page` is the URL of the engine's page; its API is on the same host and port, but Triton's is on 8000
  // where its page is on 8002. `api` not empty: there.
  EngineIdentity(const HttpUrl& page, const Result<HttpUrl>& api, HttpClient& client);
  ~EngineIdentity();

  // On the loop. Asks when nothing was asked yet, after Again, and every ten minutes; once `engine` is known,
  // which tells what to ask.
  void Query(const Engine* engine, const RemoteAccess& access, int64_t now_ns);
  // The engine began anew, or is another one now.
  void Again() noexcept { next_ns_ = 0; }
  // What is known so far.
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
