#include "sources/kubelet/api/pod_watch.h"

#include <utility>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens::kubelet {
namespace {

using std::chrono::seconds;

constexpr Duration kListTime = seconds(30);
// The server ends a watch by itself after this; our own limit is a little more.
constexpr int kWatchSeconds = 120;
constexpr Duration kKnownFor = seconds(60);
constexpr size_t kMostListBytes = 64u << 20, kMostWaitingBytes = 16u << 20, kMostLine = 4u << 20;
constexpr int kGone = 410;

}  // namespace

PodWatch::PodWatch(HttpClient& client, std::string node)
    : node_(std::move(node)), list_(client), watch_(client) {}

void PodWatch::Begin(const ApiAccess& access, Instant now) {
  if (want_list_ && !list_.busy() && !list_.ended() && now.boot_ns >= next_list_ns_) StartList(access);
  TakeList();
  bool overflowed = false;
  lines_ += watch_.TakeStream(overflowed);
  overflowed_ = overflowed || lines_.size() > kMostWaitingBytes;
  watch_ended_ = watch_.ended();
  if (watch_ended_) watch_answer_ = watch_.Take();
}

void PodWatch::TakeList() {
  if (!list_.ended()) return;
  list_answer_ = list_.Take();
  have_list_ = true;
}

void PodWatch::Parse(Instant now) {
  // The watch belongs to the previous list.
  ParseLines(now);
  if (std::exchange(have_list_, false)) ParseList(now);
  if (store_.synced && now.boot_ns - known_ns_ > kKnownFor.count()) store_ = {};
}

void PodWatch::End(const ApiAccess& access, Instant now) {
  if (want_list_) {
    watch_.Cancel();
    lines_.clear();
    return;
  }
  // One that has ended since Begin still has to be taken.
  if (!watch_.busy() && !watch_.ended()) StartWatch(access);
  if (status_.ok()) known_ns_ = now.boot_ns;
}

void PodWatch::StartList(const ApiAccess& access) {
  // From the server's cache, which is what kubelets do: a node's agents must not weigh on etcd.
  list_.Start(access, {.target = "/api/v1/pods?fieldSelector=spec.nodeName%3D" + PercentEncoded(node_) +
                                 "&resourceVersion=0",
                       .timeout = kListTime,
                       .most_bytes = kMostListBytes});
}

void PodWatch::StartWatch(const ApiAccess& access) {
  watch_.Start(access,
               {.target = "/api/v1/pods?watch=1&allowWatchBookmarks=true&fieldSelector=spec.nodeName%3D" +
                          PercentEncoded(node_) + "&timeoutSeconds=" + std::to_string(kWatchSeconds) +
                          "&resourceVersion=" + PercentEncoded(version_),
                .timeout = seconds(kWatchSeconds + 15),
                .most_bytes = kMostWaitingBytes,
                .stream = true});
}

// Schedules a new list after a pause, which doubles up to two minutes.
void PodWatch::Failed(Status status, Instant now) {
  status_ = std::move(status);
  want_list_ = true;
  next_list_ns_ = now.boot_ns + pause_.Next().count();
}

void PodWatch::ParseList(Instant now) {
  if (Status status = list_answer_.ToStatus("list of pods"); !status) return Failed(std::move(status), now);
  auto list = ParsePodList(list_answer_.body);
  list_answer_ = {};
  if (!list) return Failed(std::move(list).error(), now);
  store_.pods.clear();
  for (Pod& pod : list->pods) {
    std::string uid = pod.uid;
    store_.pods.insert_or_assign(std::move(uid), std::move(pod));
  }
  ++lists_;
  store_.synced = true;
  version_ = std::move(list->resource_version);
  want_list_ = false;
  pause_.Reset();
  status_ = Ok();
  known_ns_ = now.boot_ns;
}

// False: this version is too old, or the server gives up.
bool PodWatch::Apply(std::string_view line) {
  auto event = ParsePodEvent(line);
  if (!event) {
    status_ = std::move(event).error();
    return false;
  }
  switch (event->type) {
    case PodEvent::Type::kExpired: status_ = Ok(); return false;
    case PodEvent::Type::kError: status_ = {Code::kIo, "watch of pods: " + event->why}; return false;
    case PodEvent::Type::kDeleted: store_.pods.erase(event->pod.uid); break;
    case PodEvent::Type::kBookmark: break;
    case PodEvent::Type::kChanged: {
      std::string uid = event->pod.uid;
      if (store_.pods.size() >= kMostPods && !store_.pods.contains(uid)) {
        status_ = {Code::kExhausted, "watch of pods: too many"};
        return false;
      }
      store_.pods.insert_or_assign(std::move(uid), std::move(event->pod));
    }
  }
  if (!event->resource_version.empty()) version_ = std::move(event->resource_version);
  return true;
}

void PodWatch::ParseLines(Instant now) {
  if (want_list_) {
    lines_.clear();
    return;
  }
  std::string_view rest = lines_;
  bool good = !overflowed_;
  while (good) {
    size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (!Trim(line).empty()) good = Apply(line);
  }
  lines_.erase(0, lines_.size() - rest.size());
  if (overflowed_ || lines_.size() > kMostLine) {
    return Failed({Code::kExhausted, "watch of pods: an event is too large"}, now);
  }
  if (!good) {
    // A version that has expired is the usual course of things, and is listed at once.
    if (!status_) return Failed(std::move(status_), now);
    want_list_ = true;
    next_list_ns_ = 0;
    return;
  }
  if (!watch_ended_) return;
  lines_.clear();  // half a line of a watch that has ended
  if (watch_answer_.status == kGone) {
    want_list_ = true;
    next_list_ns_ = 0;
  } else if (Status status = watch_answer_.ToStatus("watch of pods"); !status) {
    Failed(std::move(status), now);
  }
}

}  // namespace gpulens::kubelet
