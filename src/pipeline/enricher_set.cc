#include "pipeline/enricher_set.h"

#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "base/result.h"
#include "net/io_loop.h"
#include "pipeline/repeated_fetch.h"

namespace gpulens {
namespace {

// Interval of retries of an unavailable enricher: a kubelet may start after the agent.
constexpr Duration kMakeAgain = std::chrono::seconds(30);

}  // namespace

// `enricher` is written once, under the set's mutex, and read under it.
struct EnricherSet::One {
  explicit One(Setup of) : setup(std::move(of)) {}
  const Setup setup;
  std::unique_ptr<Enricher> enricher;
  std::unique_ptr<RepeatedFetch> fetch;
  View view;
  bool leaving = false;
};

EnricherSet::EnricherSet(Env& env) : env_(env) {}

EnricherSet::~EnricherSet() { Stop(); }

Result<EnricherSet::List> EnricherSet::Make(const std::vector<Setup>& setups) {
  List present;
  {
    std::lock_guard lock(mutex_);
    present = list_;
  }
  List made;
  for (const Setup& setup : setups) {
    auto old = std::ranges::find_if(present, [&](const auto& one) { return one->setup == setup; });
    if (old != present.end()) {
      made.push_back(*old);
      continue;
    }
    auto one = std::make_shared<One>(setup);
    one->view.name = setup.spec->name;
    auto enricher = setup.spec->create(setup.config, env_);
    if (enricher) one->enricher = *std::move(enricher);
    else if (enricher.error().code != Code::kUnavailable) return enricher.error();
    else one->view.last = enricher.error();
    made.push_back(std::move(one));
  }
  return made;
}

void EnricherSet::Adopt(List list) {
  List added;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    std::erase_if(leaving_, [](const auto& one) { return !one->fetch || !one->fetch->busy(); });
    for (const auto& old : list_) {
      if (std::ranges::find(list, old) != list.end()) continue;
      old->leaving = true;
      if (old->fetch) old->fetch->Stop();
      leaving_.push_back(old);
    }
    std::ranges::copy_if(list, std::back_inserter(added),
                         [&](const auto& one) { return std::ranges::find(list_, one) == list_.end(); });
    list_ = std::move(list);
    ++changes_;
  }
  for (const auto& one : added) StartOne(one);
}

// Called without locks: the loop may call back at once.
void EnricherSet::StartOne(const std::shared_ptr<One>& one) {
  if (!env_.io) return;
  if (!one->enricher) {
    Log(LogLevel::kDebug, one->view.name, "unavailable", one->view.last.detail, one->view.name);
    std::lock_guard lock(mutex_);
    one->view.answered = true;
    env_.io->After(kMakeAgain, [this, one] { TryAgain(one); });
    return;
  }
  const RepeatedFetch::Pace pace{one->setup.period, one->setup.spec->timeout};
  auto fetch = std::make_unique<RepeatedFetch>(
      *one->enricher, pace, env_, [this, raw = one.get()](const Status& status) { Fetched(*raw, status); });
  {
    std::lock_guard lock(mutex_);
    if (stopped_ || one->leaving) return;
    one->fetch = std::move(fetch);
  }
  one->fetch->Start();
}

void EnricherSet::TryAgain(const std::shared_ptr<One>& one) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_ || one->leaving) return;
  }
  auto made = one->setup.spec->create(one->setup.config, env_);
  if (!made) {
    env_.io->After(kMakeAgain, [this, one] { TryAgain(one); });
    return;
  }
  {
    std::lock_guard lock(mutex_);
    one->enricher = *std::move(made);
  }
  StartOne(one);
}

void EnricherSet::Fetched(One& one, const Status& status) {
  {
    std::lock_guard lock(mutex_);
    View& view = one.view;
    if (view.answered && view.up != status.ok()) {
      if (status) Log(LogLevel::kInfo, view.name, "enricher_up", "answers again.", view.name);
      else Log(LogLevel::kWarn, view.name, "enricher_down", status.detail, view.name);
    } else if (!view.answered && !status) {
      Log(LogLevel::kInfo, view.name, "enricher_down", status.detail, view.name);
    }
    view.up = status.ok();
    view.last = status;
    if (!status) ++view.errors[static_cast<size_t>(status.code)];
    view.answered = true;
  }
  answered_.notify_all();
}

void EnricherSet::AwaitFirst(Duration longest) {
  if (!env_.io) return;
  std::unique_lock lock(mutex_);
  answered_.wait_for(lock, longest, [&] {
    return stopped_ || std::ranges::all_of(list_, [](const auto& one) { return one->view.answered; });
  });
}

void EnricherSet::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (const List* list : {&list_, &leaving_}) {
    for (const auto& one : *list) {
      if (one->fetch) one->fetch->Stop();
    }
  }
}

uint64_t EnricherSet::generation() const {
  std::lock_guard lock(mutex_);
  // A mix, not a sum, which could stay the same when an enricher is removed.
  uint64_t mixed = changes_;
  for (const auto& one : list_) {
    mixed *= 0x9E3779B97F4A7C15u;
    if (one->enricher) mixed += one->enricher->generation() + 1;
  }
  return mixed;
}

AttributeSet EnricherSet::Describe(const Entity& entity) const {
  std::lock_guard lock(mutex_);
  AttributeSet described;
  for (const auto& one : list_) {
    if (one->enricher) described = described.OverlaidOn(one->enricher->Describe(entity));
  }
  return described;
}

AttributeSet EnricherSet::Resource() const {
  std::lock_guard lock(mutex_);
  AttributeSet described;
  for (const auto& one : list_) {
    if (one->enricher) described = described.OverlaidOn(one->enricher->Resource());
  }
  return described;
}

void EnricherSet::Read(std::vector<View>& out) const {
  std::lock_guard lock(mutex_);
  out.resize(list_.size());
  for (size_t i = 0; i < list_.size(); ++i) {
    out[i] = list_[i]->view;
    if (list_[i]->enricher) out[i].missing = list_[i]->enricher->missing();
  }
}

}  // namespace gpulens
