// Pages of pull sinks on the agent's HTTP server. A reload replaces a page without a gap.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "net/http/http_server.h"

namespace gpulens {

// Thread-safe. A returned page is valid as long as it is held.
class PageRegistry {
 public:
  void Put(std::string_view path, std::shared_ptr<HttpHandler> page) {
    std::lock_guard lock(mutex_);
    pages_[std::string(path)] = std::move(page);
  }
  // Removes `page`, unless another one has replaced it.
  void TakeDown(std::string_view path, const HttpHandler* page) {
    std::lock_guard lock(mutex_);
    auto at = pages_.find(path);
    if (at != pages_.end() && at->second.get() == page) pages_.erase(at);
  }
  // Null when there is none. Serves GET and HEAD.
  std::shared_ptr<HttpHandler> Find(std::string_view path) const {
    std::lock_guard lock(mutex_);
    auto at = pages_.find(path);
    return at == pages_.end() ? nullptr : at->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<HttpHandler>, std::less<>> pages_;
};

}  // namespace gpulens
