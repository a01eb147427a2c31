#include "pipeline/outbox/outbox.h"

#include <thread>

#include "base/log.h"
#include "base/result.h"

namespace gpulens {
namespace {

// For the folder of a queue that another sink has, and how often it is looked at meanwhile.
constexpr Duration kPatience = std::chrono::seconds(3), kLookAgain = std::chrono::milliseconds(20);
// Memory that waits is worth more than disk.
constexpr uint64_t kMemoryShare = 8;

ParcelQueue::Options QueueOptions(const Config& queue, std::string_view name, const std::string& state_dir) {
  ParcelQueue::Options options;
  options.folder = queue.Text("dir");
  if (options.folder.empty() && !state_dir.empty())
    options.folder = state_dir + "/queue/" + std::string(name);
  if (queue.Text("storage") == "memory") options.folder.clear();
  options.max_bytes = queue.Size("max_bytes");
  if (options.folder.empty()) options.max_bytes /= kMemoryShare;
  options.max_age = queue.Time("max_age");
  const std::string& sync = queue.Text("fsync");
  options.sync = sync == "always" ? ParcelSync::kAlways
                 : sync == "none" ? ParcelSync::kNone
                                  : ParcelSync::kInterval;
  return options;
}

}  // namespace

Result<std::unique_ptr<Outbox>> Outbox::Make(const Config& config, Setup setup, Env& env) {
  if (!env.http || !env.io) return Status{Code::kUnavailable, "there is no network here"};
  std::unique_ptr<Outbox> made(new Outbox(config, std::move(setup), env));
  RETURN_IF_ERROR(made->Prepare(config));
  auto queue = made->OpenQueue(true);
  if (queue) made->Start(*std::move(queue));
  else if (queue.error().code != Code::kUnavailable) return queue.error();
  return made;
}

Outbox::Outbox(const Config& config, Setup setup, Env& env)
    : setup_(std::move(setup)), queue_config_(config.Group("queue")), env_(env) {}

Outbox::~Outbox() = default;

Status Outbox::Prepare(const Config& config) {
  way_.name = setup_.name;
  way_.timeout = config.Time("timeout");
  way_.backoff = {.initial = config.Group("retry").Time("initial"), .cap = config.Group("retry").Time("max")};
  way_.judge = setup_.judge;
  way_.judge_call = setup_.judge_call;
  way_.rework = setup_.rework;
  way_.access = [this](size_t route) { return Access(route); };
  for (const Route& route : setup_.routes) {
    ASSIGN_OR_RETURN(RemoteAccess access, RemoteAccess::Make(config, route.url, {}));
    access_.push_back(std::move(access));
    SendRoute way{std::string(setup_.signals[route.signal]),
                  {route.url, config.Text("unix_socket"), {}},
                  route.headers,
                  route.grpc_method,
                  route.gzip};
    way.target.limits.body_bytes = setup_.answer_bytes;
    way.target.limits.keep = setup_.keep;
    way_.routes.push_back(std::move(way));
  }
  return Ok();
}

// kUnavailable while another has the folder. Without patience a sink whose folder was not chosen by anybody
// then sends from memory: it is the second agent of its user.
Result<std::unique_ptr<ParcelQueue>> Outbox::OpenQueue(bool patient) const {
  ParcelQueue::Options options = QueueOptions(queue_config_, setup_.name, env_.state_dir);
  auto opened = ParcelQueue::Open(options, *env_.clock);
  const bool asked = !queue_config_.Text("dir").empty();
  if (opened || asked || patient || options.folder.empty() || opened.error().code != Code::kUnavailable)
    return opened;
  Log(LogLevel::kWarn, setup_.name, "queue_in_memory",
      opened.error().detail + ". What waits is kept in memory.");
  options.folder.clear();
  options.max_bytes /= kMemoryShare;
  return ParcelQueue::Open(options, *env_.clock);
}

void Outbox::Start(std::unique_ptr<ParcelQueue> queue) {
  std::lock_guard lock(mutex_);
  queue_ = std::move(queue);
  sender_ = std::make_unique<ParcelSender>(std::move(way_), *queue_, *env_.http, *env_.io, *env_.clock);
}

Status Outbox::Ready() {
  if (sender_) return sender_->Begin();
  const Instant begin = env_.clock->Now();
  while (true) {
    const bool patient = env_.clock->Now() - begin < kPatience;
    auto queue = OpenQueue(patient);
    if (queue) return Start(*std::move(queue)), Ok();
    if (!patient || queue.error().code != Code::kUnavailable) return queue.error();
    std::this_thread::sleep_for(kLookAgain);
  }
}

Status Outbox::Push(size_t route, std::string_view body, uint32_t items) {
  parcel_.assign(1, static_cast<char>(route));
  parcel_ += body;
  Status pushed = queue_->Push(parcel_, items);
  // Larger than the whole queue: it is counted as lost, and would be as large the next time.
  return pushed.code == Code::kInvalidArgument ? Ok() : pushed;
}

bool Outbox::HasRoom(size_t bytes) const {
  const uint64_t most = queue_->options().max_bytes / 4 * 3;
  return queue_->stats().held_bytes + bytes <= most;
}

Status Outbox::Finish(Instant deadline) { return sender_ ? sender_->Finish(deadline) : Ok(); }

Result<ParcelSender::Access> Outbox::Access(size_t route) {
  RemoteAccess& access = access_[route];
  RETURN_IF_ERROR(access.Refresh());
  return ParcelSender::Access{access.headers(), access.tls()};
}

bool Outbox::stats(DeliveryStats& out) const {
  std::lock_guard lock(mutex_);
  if (!sender_) return false;
  sender_->stats(sent_);
  const ParcelQueue::Stats queued = queue_->stats();
  out.up = sent_.up;
  out.requests = sent_.requests;
  out.retries = sent_.retries;
  out.sent_bytes = sent_.sent_bytes;
  out.last_success_unix_ns = sent_.last_success_unix_ns;
  out.signals.assign(setup_.signals.size(), {});
  for (size_t i = 0; i < setup_.signals.size(); ++i) out.signals[i].name = setup_.signals[i];
  for (size_t i = 0; i < setup_.routes.size(); ++i) {
    DeliveryStats::Signal& signal = out.signals[setup_.routes[i].signal];
    signal.delivered += sent_.routes[i].delivered;
    signal.rejected += sent_.routes[i].rejected;
  }
  out.queued_parcels = queued.parcels;
  out.queued_bytes = queued.held_bytes;
  out.queue_limit = queue_->options().max_bytes;
  out.on_disk = !queue_->options().folder.empty();
  out.oldest_age = queued.oldest_age;
  for (size_t i = 0; i < kParcelLosses; ++i)
    out.lost[i] = {ParcelLossName(static_cast<ParcelLoss>(i)), queued.lost_parcels[i]};
  out.lost[kParcelLosses] = {"refused", sent_.refused};
  return true;
}

}  // namespace gpulens
