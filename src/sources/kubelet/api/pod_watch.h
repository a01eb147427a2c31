// Watches the pods of one node at the API server: a list, then a watch from its version on; a new list after
// an expired version (410) or a failure, with back-off.
//
// Each round has three steps, so that nothing is parsed on the loop: Begin on the loop (takes the answers),
// Parse on a worker, End on the loop (sends the next requests). One round at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/backoff.h"
#include "base/clock.h"
#include "sources/kubelet/api/api_server.h"
#include "sources/kubelet/parse/api_objects.h"

namespace gpulens::kubelet {

class PodWatch {
 public:
  // Pods by uid. `synced`: a list has been read, and the watch since then is complete.
  struct Store {
    bool synced = false;
    std::map<std::string, Pod> pods;
  };

  PodWatch(HttpClient& client, std::string node);

  // On the loop. Requests the first list or a due one and takes the answers. The watch needs `access` until
  // End.
  void Begin(const ApiAccess& access, Instant now);
  // Whether the first list is in flight.
  bool first_list_busy() const noexcept { return !store_.synced && list_.busy(); }
  void WakeAtEnd(std::function<void()> wake) { list_.WakeAtEnd(std::move(wake)); }
  // On the loop, after a wait: a list that has come since Begin.
  void TakeList();
  // On a worker.
  void Parse(Instant now);
  // On the loop.
  void End(const ApiAccess& access, Instant now);

  // Between rounds, or inside one after Parse. Pods stay for at most a minute after the server stopped
  // answering.
  const Store& store() const noexcept { return store_; }
  // The failure of the last request, or ok.
  const Status& status() const noexcept { return status_; }
  uint64_t lists() const noexcept { return lists_; }

 private:
  void Failed(Status status, Instant now);
  void ParseList(Instant now);
  void ParseLines(Instant now);
  bool Apply(std::string_view line);
  void StartList(const ApiAccess& access);
  void StartWatch(const ApiAccess& access);

  const std::string node_;
  ApiCall list_, watch_;
  Store store_;
  Status status_;
  std::string version_;
  bool want_list_ = true;
  uint64_t lists_ = 0;
  int64_t next_list_ns_ = 0;  // boot time
  int64_t known_ns_ = 0;      // boot time up to which the store is known to be whole
  Backoff pause_{{.initial = std::chrono::seconds(2), .cap = std::chrono::minutes(2), .jitter = 0}, 0};
  // What Begin took, for Parse.
  bool have_list_ = false, watch_ended_ = false, overflowed_ = false;
  ApiCall::Answer list_answer_, watch_answer_;
  std::string lines_;
};

}  // namespace gpulens::kubelet
